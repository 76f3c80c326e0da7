//! The terminal's views.

mod look;
mod screen;

pub use look::Look;
pub(crate) use screen::unbroken_words;
pub use screen::{Screen, Tone};
