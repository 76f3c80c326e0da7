//! The terminal's views.

mod bars;
mod grid;
mod intervals;
mod look;
mod screen;
pub use intervals::intervals;
pub use look::Look;
pub(crate) use screen::unbroken_words;
pub use screen::{Screen, Tone};
