//! Limits, signals and memory on Linux.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::Context as _;
pub use laggard_files::{endings, output_was_closed};
use laggard_measure::linux;
use nix::sys::resource::{Resource, getrlimit};
use signal_hook::consts::SIGXFSZ;

/// Minimum address space in bytes for any command. With less, libraries and starting threads end
/// the program before it can print the reason.
const MIN_ROOM_BYTES: usize = 8 << 20;

/// Allocator that prints a remedy when memory runs out.
#[global_allocator]
static MEMORY: linux::ReportingAllocator = linux::ReportingAllocator;

/// Reads symbols if this process was started for that, and returns the exit code. Call it first
/// in `main`.
pub fn read_symbols_if_asked() -> Option<ExitCode> {
    laggard_measure::read_symbols_as(std::env::args_os().next().as_deref())
}

/// Resets the scheduling of this process to `SCHED_OTHER`.
pub fn become_normal() {
    linux::become_normal();
}

/// Makes this process keep some free memory, which is faster for reading recordings.
pub fn keep_free_memory() {
    linux::keep_free_memory();
}

/// Returns the stack size of the first thread in bytes.
pub fn first_stack() -> u64 {
    getrlimit(Resource::RLIMIT_STACK).map_or(u64::MAX, |(soft, _)| soft)
}

/// Checks that there is memory for any command.
///
/// # Errors
///
/// Returns an error if there is not.
pub fn has_room() -> anyhow::Result<()> {
    Ok(linux::has_room(MIN_ROOM_BYTES)?)
}

/// Returns whether an error reports a memory shortage.
pub fn is_of_memory(err: &anyhow::Error) -> bool {
    err.is::<linux::OutOfMemory>()
}

/// Returns the shortage that ended the measurement, if there was one.
pub fn ran_out() -> Option<String> {
    linux::ran_out().map(|refused| refused.to_string())
}

/// Returns the current memory shortage, in case it caused an error with a less helpful text.
pub fn is_short() -> Option<String> {
    linux::is_short().map(|refused| refused.to_string())
}

/// Turns a write beyond the limit on files (`ulimit -f`) into an error that names the file. By
/// default the signal ends the program.
pub fn survive_file_limit() {
    // A handler, because loads would inherit an ignored signal. It cannot be refused for this
    // signal.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Set when signals are to end the program at once.
static IS_OVER: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Makes signals end the program at once again, after the use of [`interruption`].
pub fn end_at_signals() {
    IS_OVER.store(true, Ordering::Relaxed);
}

/// Returns a flag that Ctrl-C, termination, a hangup and a memory shortage set, until
/// [`end_at_signals`]. A hangup that was ignored at the start (`nohup`) stays ignored.
///
/// # Errors
///
/// Returns an error if signals cannot be handled, or if there is too little memory already.
pub fn interruption() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in endings() {
        signal_hook::flag::register_conditional_default(signal, IS_OVER.clone())
            .and_then(|_| signal_hook::flag::register(signal, interrupted.clone()))
            .context("cannot handle Ctrl-C")?;
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

    /// Environment variable of the process that is to be ended by a signal.
    const ALONE: &str = "LAGGARD_TEST_SIGNALS";

    #[test]
    fn signal_sets_the_flag_and_later_ends_the_program() {
        if std::env::var_os(ALONE).is_some() {
            let interrupted = interruption().unwrap();
            raise(Signal::SIGTERM).unwrap();
            assert!(interrupted.load(Ordering::Relaxed));
            end_at_signals();
            raise(Signal::SIGTERM).unwrap();
            panic!("the program continues");
        }
        let test = "system::linux::tests::signal_sets_the_flag_and_later_ends_the_program";

        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(ALONE, "1")
            .output()
            .unwrap();

        assert_eq!(output.status.signal(), Some(SIGTERM), "{output:?}");
    }
}
