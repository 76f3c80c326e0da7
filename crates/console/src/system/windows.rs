//! Endings, limits and memory on Windows: as of every program there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;

/// `STATUS_CONTROL_C_EXIT`: what Windows ends a program with at Ctrl-C.
const ENDED: i32 = 0xc000_013a_u32.cast_signed();

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

/// Nothing: there are no limits on files.
pub const fn survive_file_limit() {}

/// A flag that Ctrl-C and Ctrl-Break set.
///
/// # Errors
/// When they cannot be watched for.
pub fn interruption() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).context("watch for Ctrl-C")?;
    Ok(interrupted)
}

/// Has a thread wait for Ctrl-C, Ctrl-Break and the closing of the window: it does
/// `last`, and while it holds what that returns, ends the program. A window that is
/// closed may end it before that: what it leaves half made has another name than
/// what it was to be, and the next run removes it.
///
/// # Errors
/// When there is no thread to be had.
pub fn at_ending<T>(last: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<()> {
    let mut last = Some(last);
    ctrlc::set_handler(move || {
        if let Some(last) = last.take() {
            let _held = last();
            std::process::exit(ENDED);
        }
    })
    .context("watch for Ctrl-C")
}
