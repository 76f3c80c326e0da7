//! End, limits and memory on Windows, as for every program there.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Context as _;

/// `STATUS_CONTROL_C_EXIT`: exit code after Ctrl-C.
const ENDED: i32 = 0xc000_013a_u32.cast_signed();

/// Returns `None`, because no process is started to read symbols.
pub const fn read_symbols_if_asked() -> Option<ExitCode> {
    None
}

/// Does nothing, because Windows inherits no scheduling.
pub const fn become_normal() {}

/// Does nothing, because the allocator has no such setting.
pub const fn keep_free_memory() {}

/// Returns the size in the header of the program file.
pub const fn first_stack() -> u64 {
    u64::MAX
}

/// Always succeeds, because address space is not limited.
///
/// # Errors
///
/// Never returns an error.
#[allow(
    clippy::unnecessary_wraps,
    reason = "the signature is the same as on Linux"
)]
pub const fn has_room() -> anyhow::Result<()> {
    Ok(())
}

/// Returns false.
pub const fn is_of_memory(_: &anyhow::Error) -> bool {
    false
}

/// Returns `None`.
pub const fn ran_out() -> Option<String> {
    None
}

/// Returns `None`.
pub const fn is_short() -> Option<String> {
    None
}

/// Returns false: on Windows a program without a console usually lacks an output.
pub const fn output_was_closed() -> bool {
    false
}

/// Does nothing, because file sizes are not limited.
pub const fn survive_file_limit() {}

/// Does nothing: the flag stays, and a second Ctrl-C has the same effect.
pub const fn end_at_signals() {}

/// Returns a flag that Ctrl-C, Ctrl-Break and the closing of the window set.
///
/// # Errors
///
/// Returns an error if they cannot be handled.
pub fn interruption() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .context("cannot handle Ctrl-C")?;
    let flag = Arc::clone(&interrupted);
    at_closing(move || flag.store(true, Ordering::Relaxed))?;
    Ok(interrupted)
}

/// Calls `end` when the window is closed. Installed after the handler of `ctrlc`, which would end
/// the program at once.
fn at_closing(end: impl Fn() + Send + Sync + 'static) -> anyhow::Result<()> {
    #[cfg(windows)]
    laggard_measure_windows::at_closing(end).context("cannot handle the closing of the window")?;
    #[cfg(not(windows))]
    drop(end);
    Ok(())
}

/// Starts a thread that waits for Ctrl-C, Ctrl-Break and the closing of the window. It calls
/// `last` and ends the program while it holds the result.
///
/// # Errors
///
/// Returns an error if the system refuses a thread.
pub fn at_ending<T>(last: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<()> {
    let last = Arc::new(Mutex::new(Some(last)));
    let end = move || {
        let last = last.lock().ok().and_then(|mut last| last.take());
        if let Some(last) = last {
            let _held = last();
            std::process::exit(ENDED);
        }
    };
    ctrlc::set_handler(end.clone()).context("cannot handle Ctrl-C")?;
    at_closing(end)
}
