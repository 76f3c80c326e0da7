//! Notification of a program that it is to end.

#[cfg(unix)]
mod unix;
#[cfg(not(unix))]
mod windows;

#[cfg(unix)]
pub(crate) use unix::at_ending;
#[cfg(unix)]
pub use unix::endings;
#[cfg(not(unix))]
pub(crate) use windows::at_ending;
#[cfg(not(unix))]
pub use windows::set_ending_watch;
