//! The end of a program, on Windows.

use std::any::Any;
use std::sync::OnceLock;

/// Function that starts a thread which waits for the end of the program. Then it calls
/// its argument, and ends the program while it holds the result.
type EndingWatch = fn(Box<dyn FnOnce() -> Box<dyn Any> + Send>) -> anyhow::Result<()>;

static WATCH: OnceLock<EndingWatch> = OnceLock::new();

/// Sets how the program is notified of its end: Windows has several ways. Without it,
/// incomplete files remain when the program ends early.
pub fn set_ending_watch(watch: EndingWatch) {
    WATCH.get_or_init(|| watch);
}

/// Calls `last` when the program is to end.
///
/// # Errors
/// As for the function that was set.
pub(crate) fn at_ending<T: 'static>(
    last: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<()> {
    let last = || -> Box<dyn Any> { Box::new(last()) };
    WATCH.get().map_or(Ok(()), |watch| watch(Box::new(last)))
}
