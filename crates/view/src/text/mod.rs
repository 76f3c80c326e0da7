//! The terminal's views.

mod bars;
pub(crate) mod compare;
mod grid;
mod intervals;
mod look;
mod screen;
mod series;

pub(crate) use bars::BarAxis;
pub use compare::compare;
pub use intervals::intervals;
pub use look::Look;
pub(crate) use screen::unbroken_words;
pub use screen::{Screen, Tone};
pub use series::series;
