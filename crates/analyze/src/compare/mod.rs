//! Comparison of two systems and its significance (docs/method.md 10; OSDI'99 section
//! 4.2).
//!
//! The primary comparison is of the rates of declustered exceedances of the slack that
//! an application has. Quantiles come second, because late wakeups come in bursts
//! and violate the assumption of independent values.

mod length;
mod looks;
mod means;
mod multiple;
mod order;
mod quantile;
mod recordings;
mod series;
mod tails;
mod trend;
mod verdict;

pub use length::expected_clusters_for;
pub use looks::RoundLooks;
pub use means::{MeanRatio, geometric_mean, mean_ratio};
pub use multiple::holm;
pub use order::RecordingOrder;
pub use quantile::{BlockBootstrap, QuantileRatio, quantile_ratio};
pub use recordings::{
    RecordingCount, SetsCompared, compare_recordings, compare_recordings_in_order,
};
pub use series::{ChangePoint, change_points};
pub use tails::{TailsCompared, TailsRefused, compare_tails};
pub use verdict::{Comparison, ComparisonVerdict, Magnitude};
