//! The end of a program, on Windows.

use std::any::Any;
use std::sync::OnceLock;

/// Function that has a thread wait until the program is to end. Then it calls what it is
/// given, and ends the program while it holds the result.
type EndingWatch = fn(Box<dyn FnOnce() -> Box<dyn Any> + Send>) -> anyhow::Result<()>;

static WATCH: OnceLock<EndingWatch> = OnceLock::new();

/// Sets how the program hears that it is to end: Windows has several ways. Without it,
/// parts of files stay when the program ends early.
pub fn set_ending_watch(watch: EndingWatch) {
    WATCH.get_or_init(|| watch);
}

/// Has `last` called when the program is to end.
///
/// # Errors
/// As the function that was set.
pub(crate) fn at_ending<T: 'static>(
    last: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<()> {
    let last = || -> Box<dyn Any> { Box::new(last()) };
    WATCH.get().map_or(Ok(()), |watch| watch(Box::new(last)))
}
