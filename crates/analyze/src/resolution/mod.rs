//! What the resolution and the cost of the probe do to results (docs/method.md 12).

mod omission;
mod probe;
mod timer;

pub use omission::backfilled;
pub use probe::corrected_duration;
pub use timer::{
    ExceedanceBand, corrected_variance, exceedance_band, tail_inflation_triangular,
    tail_inflation_uniform,
};
