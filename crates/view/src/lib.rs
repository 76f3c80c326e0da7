//! Every view of an answer: the only place that rounds and formats.
//!
//! [`text`] is the terminal's, [`page`] the browser's, [`markdown()`] is for
//! issue trackers, as [`comparison()`], [`bug()`] and [`criteria()`] are, [`junit()`] and [`github()`] for machines that build and test, [`picture`] draws single figures, [`flame()`] and
//! [`perfetto()`] late activations, [`export`] writes recordings for other programs. An answer's JSON is the value itself. Nothing
//! here computes: who explains, counts or fits is `laggard-answer`.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod bug;
mod checked;
mod comparison;
mod criteria;
pub mod export;
mod flame;
mod live;
mod markdown;
mod named;
mod notes;
pub mod page;
mod perfetto;
pub mod picture;
mod sheet;
pub mod text;

pub use bug::bug;
pub use checked::{badge, github, junit};
pub use comparison::{comparison, comparison_page};
pub use criteria::{criteria, criteria_page};
pub use flame::{FlameError, flame};
pub use live::live;
pub use markdown::markdown;
pub use named::Named;
pub use perfetto::perfetto;
