//! Why a return level is not forecast.

use std::fmt;

/// One reason to refuse a forecast, or to doubt one (docs/method.md 8.6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// There are too few independent peaks.
    TooFewPeaks {
        /// So many there are.
        peaks: usize,
        /// So many are needed.
        needed: usize,
    },
    /// The level lies below the threshold of the peaks, where nothing is known.
    BelowThreshold {
        /// An upper limit of the level, ns.
        at_most: f64,
    },
    /// The horizon is too many times the exposure.
    TooFar {
        /// Horizon over exposure.
        factor: f64,
        /// The largest factor allowed.
        most: f64,
    },
    /// A periodic source made too many of the exceedances.
    Periodic {
        /// Its share, 0 to 1.
        share: f64,
    },
    /// Of too many peaks nobody knows the cause.
    CausesUnknown {
        /// Their share, 0 to 1.
        share: f64,
    },
    /// Too many peaks are equal.
    Ties {
        /// Their share, 0 to 1.
        share: f64,
    },
    /// Peaks depend on each other.
    Correlated {
        /// p-value of Ljung's and Box's test.
        p: f64,
    },
    /// The rate of peaks changes in time.
    RateChanges {
        /// The smaller p-value of the tests.
        p: f64,
    },
    /// The size of peaks changes in time.
    SizeChanges {
        /// The KPSS statistic.
        statistic: f64,
    },
    /// No threshold gives excesses that follow a Pareto distribution.
    NoFit,
    /// The tail is too heavy for a useful forecast.
    HeavyTail {
        /// The fitted shape.
        shape: f64,
    },
    /// The tail ends at a bound, which says more than a model would.
    BoundedTail,
    /// The service was still waiting when an observation ended: a peak is at
    /// least this, and its rank is not known.
    StillWaiting {
        /// How late it was by then, ns.
        at_least: f64,
    },
    /// The upper limit is useless.
    Uncertain {
        /// The estimate.
        value: f64,
        /// Its upper limit.
        high: f64,
        /// How many times the estimate that may be.
        most: f64,
    },
    /// An input is not one that a formula accepts.
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

/// A reason in words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReasonWords {
    /// The reason.
    pub what: String,
    /// The same whatever the figures of one recording.
    pub in_short: String,
    /// The figure of a statistical test, where one found it.
    pub figure: Option<String>,
    /// What would help, or how much is known in spite of it.
    pub then: Option<String>,
}

impl ReasonWords {
    /// Without the figure of a test, so that the same reason reads the same for
    /// every service.
    #[must_use]
    pub fn without_figure(self) -> Self {
        Self {
            figure: None,
            ..self
        }
    }
}

impl fmt::Display for ReasonWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(figure) = &self.figure {
            write!(f, " ({figure})")?;
        }
        match &self.then {
            Some(then) => write!(f, "; {then}"),
            None => Ok(()),
        }
    }
}

/// Its times in ns, without a unit.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words(|ns| ns.to_string()).fmt(f)
    }
}

impl Reason {
    /// In words; `time` writes ns.
    pub fn words(&self, time: impl Fn(f64) -> String) -> ReasonWords {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let (what, figure, then) = match *self {
            Self::TooFewPeaks { peaks, needed } => (
                match peaks {
                    0 => "no independent peak".into(),
                    1 => "only 1 independent peak".into(),
                    _ => format!("only {peaks} independent peaks"),
                },
                None,
                Some(format!("{needed} are needed")),
            ),
            Self::BelowThreshold { at_most } => (
                "the level lies below the threshold".into(),
                None,
                Some(format!("it is at most {}", time(at_most))),
            ),
            Self::TooFar { factor, most } => (
                format!("the horizon is {factor:.1} times the recording"),
                None,
                Some(format!("at most {most} can be forecast")),
            ),
            Self::Periodic { share } => (
                format!(
                    "a periodic source made {} of the exceedances",
                    percent(share)
                ),
                None,
                Some("forecast by cause".into()),
            ),
            Self::CausesUnknown { share } => (
                format!(
                    "the causes of {} of the peaks are not known",
                    percent(share)
                ),
                None,
                None,
            ),
            Self::Ties { share } => (
                format!("{} of the peaks are equal", percent(share)),
                None,
                Some("the timer is too coarse".into()),
            ),
            Self::Correlated { p } => (
                "peaks are correlated".into(),
                Some(format!("p {p:.3}")),
                Some("clusters are still joined, or the load varies".into()),
            ),
            Self::RateChanges { p } => (
                "the rate of peaks changes in time".into(),
                Some(format!("p {p:.3}")),
                Some("record a steady load".into()),
            ),
            Self::SizeChanges { statistic } => (
                "the size of peaks changes in time".into(),
                Some(format!("KPSS {statistic:.2}")),
                Some("record a steady load".into()),
            ),
            Self::NoFit => (
                "no threshold gives a tail of one form".into(),
                None,
                Some("causes differ, forecast by cause".into()),
            ),
            Self::HeavyTail { shape } => (
                "the tail is too heavy".into(),
                Some(format!("shape {shape:.2}")),
                Some("record longer or find the cause".into()),
            ),
            Self::BoundedTail => (
                "the tail ends abruptly".into(),
                None,
                Some("report the largest seen and find what bounds it".into()),
            ),
            Self::StillWaiting { at_least } => (
                format!(
                    "a peak of at least {} had not ended when measuring did",
                    time(at_least)
                ),
                None,
                Some("record until it has".into()),
            ),
            Self::Uncertain { value, high, most } => (
                format!(
                    "the upper limit {} is more than {most} times the estimate {}",
                    time(high),
                    time(value)
                ),
                None,
                None,
            ),
            Self::Unusable => ("the peaks cannot be used".into(), None, None),
        };
        let in_short = if matches!(self, Self::TooFar { .. }) {
            "the horizon is too many times the recording".into()
        } else {
            what.clone()
        };
        ReasonWords {
            what,
            in_short,
            figure,
            then,
        }
    }

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
