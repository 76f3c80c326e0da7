//! Counts of rare events: rates, their ratios, and recording times (docs/method.md 5
//! and 10).
//!
//! Counts must be of independent events: clusters of exceedances. Raw exceedances come
//! in bursts and make every interval too narrow. [`Clusters`] finds the independent
//! events behind dependent ones.

pub(crate) mod binomial;
mod clusters;
mod compound;
mod dispersion;
mod groups;
mod limit;
mod looks;
mod power;
mod prediction;
mod rate;
mod ratio;
mod slow;

pub use clusters::{Clusters, clustered_interval};
pub use compound::{SizedEvents, predicted_sum};
pub use dispersion::{Dispersion, dispersion_index};
pub use groups::Event;
pub use limit::{AgainstLimit, LimitVerdict, StallSize, Tallied, VerdictConfidence, against_limit};
pub use looks::Looks;
pub use power::expected_events_for;
pub use prediction::predicted_count;
pub use rate::{mean_time_interval, rate_interval, rate_upper_limit};
pub use ratio::{RateRatio, effective_ratio};
pub use slow::SlowVariation;
