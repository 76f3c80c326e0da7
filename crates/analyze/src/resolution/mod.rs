//! What the resolution of a clock does to results (docs/method.md 12).

mod timer;

pub use timer::{
    ExceedanceBand, corrected_variance, exceedance_band, tail_inflation_triangular,
    tail_inflation_uniform,
};
