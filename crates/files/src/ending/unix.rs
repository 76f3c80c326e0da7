//! Signals that end a program, on Unix.

use anyhow::{Context as _, anyhow};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Starts a thread that waits for a signal that ends programs. Then it calls `last`,
/// and ends the program with that signal while it holds the result.
///
/// # Errors
/// If it is not possible to wait for signals.
pub(crate) fn at_ending<T>(last: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new(endings()).context("cannot watch for Ctrl-C")?;
    let thread = std::thread::Builder::new()
        .name("laggard/ending".into())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                let _held = last();
                let _ = emulate_default_handler(signal);
            }
        });
    thread.map_err(|error| {
        anyhow!(error).context(
            "cannot start a thread; allow one more (`ulimit -u`, or pids.max of the control group)",
        )
    })?;
    Ok(())
}

/// Returns the signals that a person or a system sends to end a program, except an ignored hangup
/// (`nohup`).
pub fn endings() -> impl Iterator<Item = i32> {
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hangup)
}

/// Returns whether this process was started so that it ignores `signal`.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
