//! Endings, limits and memory on Windows: as of every program there.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Context as _;

/// `STATUS_CONTROL_C_EXIT`: what Windows ends a program with at Ctrl-C.
const ENDED: i32 = 0xc000_013a_u32.cast_signed();

/// Nothing: no process is started for that.
pub const fn read_symbols_if_asked() -> Option<ExitCode> {
    None
}

/// Nothing: none of it is inherited.
pub const fn become_normal() {}

/// As much as the program's file asks for.
pub const fn first_stack() -> u64 {
    u64::MAX
}

/// Always: there are no limits on addresses.
///
/// # Errors
/// Never.
#[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
pub const fn has_room() -> anyhow::Result<()> {
    Ok(())
}

/// Never.
pub const fn is_of_memory(_: &anyhow::Error) -> bool {
    false
}

/// Never.
pub const fn ran_out() -> Option<String> {
    None
}

/// Never.
pub const fn is_short() -> Option<String> {
    None
}

/// Never: a program without a console writes nowhere, as is usual there.
pub const fn output_was_closed() -> bool {
    false
}

/// Nothing: there are no limits on files.
pub const fn survive_file_limit() {}

/// Nothing: the flag stays, and a second Ctrl-C does as the first.
pub const fn end_at_signals() {}

/// A flag that Ctrl-C, Ctrl-Break and the closing of the window set.
///
/// # Errors
/// When they cannot be watched for.
pub fn interruption() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).context("watch for Ctrl-C")?;
    let flag = Arc::clone(&interrupted);
    at_closing(move || flag.store(true, Ordering::Relaxed))?;
    Ok(interrupted)
}

/// Has `end` called when the window is closed. After `ctrlc`, whose own handler would have
/// the program ended there and then.
fn at_closing(end: impl Fn() + Send + Sync + 'static) -> anyhow::Result<()> {
    #[cfg(windows)]
    laggard_measure_windows::at_closing(end).context("watch for the closing of the window")?;
    #[cfg(not(windows))]
    drop(end);
    Ok(())
}

/// Has a thread wait for Ctrl-C, Ctrl-Break and the closing of the window: it does
/// `last`, and while it holds what that returns, ends the program.
///
/// # Errors
/// When there is no thread to be had.
pub fn at_ending<T>(last: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<()> {
    let last = Arc::new(Mutex::new(Some(last)));
    let end = move || {
        let last = last.lock().ok().and_then(|mut last| last.take());
        if let Some(last) = last {
            let _held = last();
            std::process::exit(ENDED);
        }
    };
    ctrlc::set_handler(end.clone()).context("watch for Ctrl-C")?;
    at_closing(end)
}
