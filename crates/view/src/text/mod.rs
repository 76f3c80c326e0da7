//! The terminal's views.

mod bars;
mod beside;
mod check;
pub(crate) mod compare;
mod doctor;
mod episode;
mod forecast;
mod grid;
mod look;
mod overview;
mod qos;
mod rehearsal;
mod sched;
mod screen;
mod show;
mod table4;
mod why;

pub use beside::{beside, by_load};
pub use check::check;
pub use compare::compare;
pub use doctor::doctor;
pub use episode::episode;
pub use forecast::{AssumedTold, EveryLevel, ForecastTold, forecast, told};
pub use grid::TableView;
pub use look::Look;
pub use overview::{InShort, Said, overview, overviews};
pub(crate) use overview::{said, who_made_late};
pub use qos::{choices, qos};
pub use rehearsal::{counted, rehearsal};
pub use sched::sched;
pub use screen::{Screen, Tone};
pub(crate) use show::{least, measured_with};
pub use show::{services, show, stages};
pub use table4::table4;
pub use why::why;
