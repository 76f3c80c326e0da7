//! Reasons for not forecasting a return level.

use std::fmt;

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
    /// The level lies below the threshold of the peaks, where no data exist.
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
    /// Exposure from which a model may be possible, at the rate of peaks so far; `None`
    /// if longer recording alone does not help.
    pub exposure_for_model: Option<f64>,
    /// Exposure from which no model is needed.
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

/// Reason as text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReasonWords {
    /// Reason.
    pub what: String,
    /// Reason without the figures of one recording.
    pub in_short: String,
    /// Figure of a statistical test, if there is one.
    pub figure: Option<String>,
    /// Remedy, or the known part of the answer.
    pub then: Option<String>,
}

impl ReasonWords {
    /// Removes the figure of a test, so that a reason has the same text for every
    /// service.
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

/// Formats times in ns, without a unit.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words(|ns| ns.to_string()).fmt(f)
    }
}

impl Reason {
    /// Returns the reason as text; `time` formats ns.
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
                Some(p_value(p)),
                Some("clusters are still joined, or the load varies".into()),
            ),
            Self::RateChanges { p } => (
                "the rate of peaks changes in time".into(),
                Some(p_value(p)),
                Some("record a steady load".into()),
            ),
            Self::SizeChanges { statistic } => (
                "the size of peaks changes in time".into(),
                Some(format!("KPSS {statistic:.2}")),
                Some("record a steady load".into()),
            ),
            Self::Drifts => (
                "latencies drift or changed".into(),
                None,
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

    /// Returns an upper limit of the level, if the reason has one.
    pub const fn at_most(&self) -> Option<f64> {
        if let Self::BelowThreshold { at_most } = self {
            return Some(*at_most);
        }
        None
    }

    /// Returns the exposure from which this reason disappears, at the rate of peaks so
    /// far; `None` if longer recording does not remove it.
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

/// Writes a p-value. One that rounds to 0 has a limit instead.
fn p_value(p: f64) -> String {
    if p < 0.001 {
        "p < 0.001".into()
    } else {
        format!("p {p:.3}")
    }
}
