//! Limits, signals and memory on Linux.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::Context as _;
pub use laggard_files::endings;
use laggard_measure::linux;
pub use laggard_measure::linux::output_was_closed;
use nix::sys::resource::{Resource, getrlimit};
use signal_hook::consts::SIGXFSZ;

/// What any command takes at least, bytes of addresses: with less, libraries and
/// threads that begin end the program before it can say why.
const ROOM: usize = 8 << 20;

/// Says what helps where there is no more.
#[global_allocator]
static MEMORY: linux::ReportingAllocator = linux::ReportingAllocator;

/// Reads symbols, if this process was started for that, and returns the exit code. To be
/// called first in `main`.
pub fn read_symbols_if_asked() -> Option<ExitCode> {
    laggard_measure::read_symbols_as(std::env::args_os().next().as_deref())
}

/// Makes this process one as others are.
pub fn become_normal() {
    linux::become_normal();
}

/// What the first thread's stack may hold, bytes.
pub fn first_stack() -> u64 {
    getrlimit(Resource::RLIMIT_STACK).map_or(u64::MAX, |(soft, _)| soft)
}

/// Whether there is memory for any command.
///
/// # Errors
/// Where there is not.
pub fn has_room() -> anyhow::Result<()> {
    Ok(linux::has_room(ROOM)?)
}

/// Whether an error tells of memory that was refused.
pub fn is_of_memory(err: &anyhow::Error) -> bool {
    err.is::<linux::OutOfMemory>()
}

/// Whether memory was refused, which ended what was measured, in words.
pub fn ran_out() -> Option<String> {
    linux::ran_out().map(|refused| refused.to_string())
}

/// What memory is short now, in case that an error came of it which tells less.
pub fn is_short() -> Option<String> {
    linux::is_short().map(|refused| refused.to_string())
}

/// Lets a write beyond the limit on files (`ulimit -f`) be an error that names
/// the file, instead of this program's end.
pub fn survive_file_limit() {
    // A handler, because loads would inherit that the signal is ignored. It
    // cannot be refused for this signal.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Set when signals are to end the program at once.
static IS_OVER: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Has signals end the program at once again: what [`interruption`] is for is over.
pub fn end_at_signals() {
    IS_OVER.store(true, Ordering::Relaxed);
}

/// A flag that Ctrl-C, termination, the end of the terminal and that of memory set, until
/// [`end_at_signals`]. A hangup that was to be ignored (`nohup`) still is.
///
/// # Errors
/// When signals cannot be watched for, or there is too little memory already.
pub fn interruption() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in endings() {
        signal_hook::flag::register_conditional_default(signal, IS_OVER.clone())
            .and_then(|_| signal_hook::flag::register(signal, interrupted.clone()))
            .context("watch for Ctrl-C")?;
    }
    linux::end_in_order(interrupted.clone())?;
    Ok(interrupted)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use nix::sys::signal::{Signal, raise};
    use signal_hook::consts::SIGTERM;

    use super::*;

    /// Set where this program is to be ended by a signal.
    const ALONE: &str = "LAGGARD_TEST_SIGNALS";

    #[test]
    fn signal_sets_the_flag_and_ends_the_program_once_that_is_over() {
        if std::env::var_os(ALONE).is_some() {
            let interrupted = interruption().unwrap();
            raise(Signal::SIGTERM).unwrap();
            assert!(interrupted.load(Ordering::Relaxed));
            end_at_signals();
            raise(Signal::SIGTERM).unwrap();
            panic!("it goes on");
        }
        let test =
            "system::linux::tests::signal_sets_the_flag_and_ends_the_program_once_that_is_over";

        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(ALONE, "1")
            .output()
            .unwrap();

        assert_eq!(output.status.signal(), Some(SIGTERM), "{output:?}");
    }
}
