//! Why a return level is not forecast.

use std::fmt;

/// One reason to refuse a forecast, or to doubt one (docs/method.md 8.6).
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Reason {
    /// There are too few independent peaks.
    #[error("only {peaks} independent peaks; {needed} are needed")]
    TooFewPeaks {
        /// So many there are.
        peaks: usize,
        /// So many are needed.
        needed: usize,
    },
    /// The level lies below the threshold of the peaks, where nothing is known.
    #[error("the level lies below the threshold; it is at most {at_most}")]
    BelowThreshold {
        /// An upper limit of the level, ns.
        at_most: f64,
    },
    /// The horizon is too many times the exposure.
    #[error("the horizon is {factor:.1} times the recording; at most {most} can be forecast")]
    TooFar {
        /// Horizon over exposure.
        factor: f64,
        /// The largest factor allowed.
        most: f64,
    },
    /// A periodic source made too many of the exceedances.
    #[error("a periodic source made {:.0} % of the exceedances; forecast by cause", 100.0 * share)]
    Periodic {
        /// Its share, 0 to 1.
        share: f64,
    },
    /// Of too many peaks nobody knows the cause.
    #[error("the causes of {:.0} % of the peaks are not known", 100.0 * share)]
    CausesUnknown {
        /// Their share, 0 to 1.
        share: f64,
    },
    /// Too many peaks are equal.
    #[error("{:.0} % of the peaks are equal; the timer is too coarse", 100.0 * share)]
    Ties {
        /// Their share, 0 to 1.
        share: f64,
    },
    /// Peaks depend on each other.
    #[error("peaks are correlated (p {p:.3}); clusters are still joined, or the load varies")]
    Correlated {
        /// p-value of Ljung's and Box's test.
        p: f64,
    },
    /// The rate of peaks changes in time.
    #[error("the rate of peaks changes in time (p {p:.3}); record a steady load")]
    RateChanges {
        /// The smaller p-value of the tests.
        p: f64,
    },
    /// The size of peaks changes in time.
    #[error("the size of peaks changes in time (KPSS {statistic:.2}); record a steady load")]
    SizeChanges {
        /// The KPSS statistic.
        statistic: f64,
    },
    /// No threshold gives excesses that follow a Pareto distribution.
    #[error("no threshold gives a tail of one form; causes differ, forecast by cause")]
    NoFit,
    /// The tail is too heavy for a useful forecast.
    #[error("the tail is too heavy (shape {shape:.2}); record longer or find the cause")]
    HeavyTail {
        /// The fitted shape.
        shape: f64,
    },
    /// The tail ends at a bound, which says more than a model would.
    #[error("the tail ends abruptly; report the largest seen and find what bounds it")]
    BoundedTail,
    /// The service was still waiting when an observation ended: a peak is at
    /// least this, and its rank is not known.
    #[error("a peak of at least {at_least} had not ended when measuring did; record until it has")]
    StillWaiting {
        /// How late it was by then, ns.
        at_least: f64,
    },
    /// The upper limit is useless.
    #[error("the upper limit {high} is more than {most} times the estimate {value}")]
    Uncertain {
        /// The estimate.
        value: f64,
        /// Its upper limit.
        high: f64,
        /// How many times the estimate that may be.
        most: f64,
    },
    /// An input is not one that a formula accepts.
    #[error("the peaks cannot be used")]
    Unusable,
}

/// No forecast, for these reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// All reasons found; never empty.
    pub reasons: Vec<Reason>,
    /// The exposure from which on a model may do, as far as that can be said
    /// from the rate of peaks so far; `None` when longer recording alone does
    /// not help the model.
    pub exposure_for_model: Option<f64>,
    /// The exposure from which on no model is needed.
    pub exposure_without_model: f64,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, reason) in self.reasons.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{reason}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

impl Reason {
    /// An upper limit of the level, where the reason tells one.
    pub const fn at_most(&self) -> Option<f64> {
        if let Self::BelowThreshold { at_most } = self {
            return Some(*at_most);
        }
        None
    }

    /// The exposure from which on this reason is gone, at the rate of peaks so
    /// far; `None` when it does not go by recording longer.
    pub fn exposure_needed(&self, exposure: f64) -> Option<f64> {
        match *self {
            Self::TooFewPeaks { peaks: 0, .. } => None,
            Self::TooFewPeaks { peaks, needed } => Some(exposure * needed as f64 / peaks as f64),
            Self::TooFar { factor, most } => Some(exposure * factor / most),
            // Widths shrink with the root of the number of peaks.
            Self::Uncertain { value, high, most } => high
                .is_finite()
                .then(|| exposure * ((high - value) / ((most - 1.0) * value)).powi(2)),
            Self::BelowThreshold { .. }
            | Self::Periodic { .. }
            | Self::CausesUnknown { .. }
            | Self::Ties { .. }
            | Self::Correlated { .. }
            | Self::RateChanges { .. }
            | Self::SizeChanges { .. }
            | Self::NoFit
            | Self::HeavyTail { .. }
            | Self::BoundedTail
            | Self::StillWaiting { .. }
            | Self::Unusable => None,
        }
    }
}
