//! Expected worst latencies in an hour, a day, a week (docs/method.md 8; OSDI'99
//! section 4.3).
//!
//! The entry point is [`return_level`]: it takes the peaks of clusters of exceedances
//! and returns the level exceeded once per horizon on average, with an interval, or
//! refuses with the reasons. The other items are its parts.

mod bootstrap;
mod by_cause;
mod capped;
mod clusters;
mod drift;
mod empirical;
mod fit;
mod labels;
mod level;
mod mixture;
mod observed;
mod pareto;
mod peaks;
mod prediction;
mod profile;
mod refusal;
mod stationarity;
mod threshold;

pub use bootstrap::Bootstrap;
pub use by_cause::{ByCause, CauseRefusal, CauseSource, level_by_cause};
pub use capped::{
    ASSUMED_HELD_RARE, ASSUMED_HELD_RECORDED, FARTHEST_HORIZON, HEAVIEST_SHAPE, capped_bound,
};
pub use clusters::{Cluster, decluster};
pub use drift::{Change, Course};
pub use empirical::{EmpiricalLevel, empirical_level, exposure_without_model};
pub use fit::{FIT_LEVELS, anderson_darling, anderson_darling_p, anderson_darling_quantile};
pub use labels::{ExplainedLatency, Labels};
pub(crate) use level::tail_threshold;
pub use level::{Estimate, LevelSettings, Method, return_level};
pub use mixture::{Component, Mixture};
pub use observed::{Observation, ObservedPeaks, PeakSpan, observe, peaks_of, periodic_share};
pub use pareto::{LikelihoodFit, Pareto, Tail, fit_likelihood, fit_quasi_bayes};
pub use peaks::Peaks;
pub use prediction::{
    BlockCounts, BlockLength, PredictionBound, block_length, chance_of_new_largest,
    exposure_for_bound, prediction_bound, shortest_block,
};
pub use profile::{RateUncertainty, profile_interval};
pub use refusal::{Reason, Refusal};
pub use stationarity::{
    KPSS_CRITICAL_1_PERCENT, Statistic, Uniformity, kpss, ljung_box, uniform_times,
};
pub use threshold::forward_stop;

/// Smallest shape of a likelihood fit. Below it the usual asymptotics fail (Smith
/// 1985).
pub const SHAPE_FLOOR: f64 = -0.5;
