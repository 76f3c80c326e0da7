//! Which of two systems is better, and whether that is significant
//! (docs/method.md 10; OSDI'99 section 4.2).
//!
//! The primary comparison is of rates of declustered exceedances of the slack
//! that an application has. Quantiles and maxima come second, because late
//! activations come in bursts and defeat tests of independent values.

mod maxima;
mod means;
mod multiple;
mod quantile;
mod recordings;
mod tail;
mod verdict;

pub use maxima::{RankTest, block_maxima, compare_ranks};
pub use means::{MeanRatio, mean_ratio};
pub use multiple::holm;
pub use quantile::{
    BlockBootstrap, QuantileRatio, counted_quantile_ratio, quantile_ratio, quantile_ratio_bounds,
};
pub use recordings::{RecordingCount, SetsCompared, compare_recordings};
pub use tail::{TailTest, compare_tails};
pub use verdict::{Comparison, ComparisonVerdict, Magnitude, compare_rates};
