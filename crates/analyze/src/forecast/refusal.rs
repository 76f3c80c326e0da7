//! Reasons for not forecasting a return level.

use schemars::JsonSchema;
use serde::Serialize;

/// Reason to refuse or to doubt a forecast (docs/method.md 8.6).
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// Too few independent peaks.
    TooFewPeaks {
        /// Number of peaks.
        peaks: usize,
        /// Number of peaks that are needed.
        needed: usize,
    },
    /// The level lies below the threshold of the peaks. Data below the threshold are missing.
    BelowThreshold {
        /// Upper limit of the level, ns.
        at_most: f64,
    },
    /// The horizon is too long for the exposure.
    TooFar {
        /// Horizon divided by exposure.
        factor: f64,
        /// Maximum of this factor.
        most: f64,
    },
    /// A periodic source made too many of the exceedances.
    Periodic {
        /// Its fraction, 0 to 1.
        share: f64,
    },
    /// The cause of too many peaks is unknown.
    CausesUnknown {
        /// Their fraction, 0 to 1.
        share: f64,
    },
    /// Too many peaks are equal.
    Ties {
        /// Their fraction, 0 to 1.
        share: f64,
    },
    /// Peaks depend on each other.
    Correlated {
        /// p-value of Ljung's and Box's test.
        p: f64,
    },
    /// The rate of peaks changes over time.
    RateChanges {
        /// Smaller p-value of the tests.
        p: f64,
    },
    /// The size of peaks changes over time.
    SizeChanges {
        /// KPSS statistic.
        statistic: f64,
    },
    /// Latencies drift or changed, and the exposure is too short for ranks.
    Drifts,
    /// No threshold gives excesses that follow a Pareto distribution.
    NoFit,
    /// The tail is too heavy for a useful forecast.
    HeavyTail {
        /// Fitted shape.
        shape: f64,
    },
    /// The tail ends at a bound, which is more informative than a model.
    BoundedTail,
    /// The service was still waiting when an observation ended: a peak is a lower
    /// bound, and its rank is unknown.
    StillWaiting {
        /// Latency at that time, ns.
        at_least: f64,
    },
    /// The upper limit is too high to be useful.
    Uncertain {
        /// Estimate.
        value: f64,
        /// Upper limit; `null` in JSON if it is infinite.
        #[schemars(with = "Option<f64>")]
        high: f64,
        /// Maximum ratio of both.
        most: f64,
    },
    /// A formula does not accept an input.
    Unusable,
}

/// Refusal of a forecast with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// All reasons; never empty.
    pub reasons: Vec<Reason>,
    /// Minimum exposure for a model at the current rate of peaks; `None` if longer recording alone
    /// does not help.
    pub exposure_for_model: Option<f64>,
    /// Minimum exposure that makes a model unnecessary.
    pub exposure_without_model: f64,
}

impl Reason {
    /// Returns an upper limit of the level, if the reason has one.
    pub const fn at_most(&self) -> Option<f64> {
        if let Self::BelowThreshold { at_most } = self {
            return Some(*at_most);
        }
        None
    }

    /// Returns the exposure that removes this reason at the current rate of peaks; `None` if longer
    /// recording does not remove it.
    pub fn exposure_needed(&self, exposure: f64) -> Option<f64> {
        match *self {
            Self::TooFewPeaks { peaks: 0, .. } => None,
            Self::TooFewPeaks { peaks, needed } => Some(exposure * needed as f64 / peaks as f64),
            Self::TooFar { factor, most } => Some(exposure * factor / most),
            // Widths shrink with the square root of the number of peaks.
            Self::Uncertain { value, high, most } => high
                .is_finite()
                .then(|| exposure * ((high - value) / ((most - 1.0) * value)).powi(2)),
            _ => None,
        }
    }
}
