//! Limits, signals and memory on Linux.

use std::sync::Arc;

use anyhow::Context as _;
use laggard_measure::linux;
use laggard_session::SessionError;
use laggard_workload::disturb::DisturbError;
use laggard_workload::load::{LoadRunError, RecipeError};
use laggard_workload::task::TaskError;
use nix::sys::resource::{Resource, getrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// What any command takes at least, bytes of addresses: with less, libraries and
/// threads that begin end the program before it can say why.
const ROOM: usize = 8 << 20;

/// Says what helps where there is no more.
#[global_allocator]
static MEMORY: linux::ToldMemory = linux::ToldMemory;

/// Makes this process one as others are.
pub(crate) fn become_normal() {
    linux::become_normal();
}

/// What the first thread's stack may hold, bytes.
pub(crate) fn first_stack() -> u64 {
    getrlimit(Resource::RLIMIT_STACK).map_or(u64::MAX, |(soft, _)| soft)
}

/// Whether there is memory for any command.
///
/// # Errors
/// Where there is not.
pub(crate) fn has_room() -> anyhow::Result<()> {
    Ok(linux::has_room(ROOM)?)
}

/// Whether an error tells of memory that was refused.
pub(crate) fn is_of_memory(err: &anyhow::Error) -> bool {
    err.is::<linux::OutOfMemory>()
}

/// Whether memory was refused, which ended what was measured, in words.
pub(crate) fn ran_out() -> Option<String> {
    linux::ran_out().map(|refused| refused.to_string())
}

/// What memory is short now, in case that an error came of it which tells less.
pub(crate) fn is_short() -> Option<String> {
    linux::is_short().map(|refused| refused.to_string())
}

/// Lets a write beyond the limit on files (`ulimit -f`) be an error that names
/// the file, instead of this program's end.
pub(crate) fn survive_file_limit() {
    // A handler, because loads would inherit that the signal is ignored. It
    // cannot be refused for this signal.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Whether this machine cannot do what was asked, rather than that anything
/// went wrong.
pub(crate) fn is_unmet(err: &anyhow::Error) -> bool {
    let told = [
        err.downcast_ref().map(SessionError::is_unmet),
        err.downcast_ref().map(DisturbError::is_unmet),
        err.downcast_ref().map(RecipeError::is_unmet),
        err.downcast_ref().map(LoadRunError::is_unmet),
        err.downcast_ref().map(TaskError::is_unmet),
    ];
    told.contains(&Some(true))
}

/// Has a thread wait for a signal that ends a program: it does `last`, and while it
/// holds what that returns, the program ends as by that signal.
///
/// # Errors
/// When signals cannot be waited for.
pub(crate) fn at_ending<T>(last: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new(endings()).context("watch for Ctrl-C")?;
    std::thread::Builder::new()
        .name("laggard/ending".into())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                let _held = last();
                let _ = emulate_default_handler(signal);
            }
        })
        .context(
            "start a thread; allow one more (`ulimit -u`, or pids.max of the control group)",
        )?;
    Ok(())
}

/// The signals by which a person or a system ends a program.
pub(crate) fn endings() -> impl Iterator<Item = i32> {
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hangup)
}

/// Whether this process was started so that it ignores `signal`.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
