//! Return level of a horizon, by the method that the data permit.

use super::KPSS_CRITICAL_1_PERCENT;
use super::{
    Bootstrap, Pareto, Peaks, RateUncertainty, Reason, Refusal, SHAPE_FLOOR, Tail,
    anderson_darling, anderson_darling_p, empirical_level, exposure_without_model, fit_likelihood,
    fit_quasi_bayes, forward_stop, kpss, ljung_box, profile_interval, uniform_times,
};
use crate::sample::{descending, mean};
use crate::{InputError, Interval};

/// Numbers of largest peaks whose smallest is tried as threshold.
const CANDIDATES: [usize; 7] = [400, 300, 200, 150, 100, 75, 50];

/// Maximum ratio of the upper limit to the estimate.
const MAX_UNCERTAINTY: f64 = 10.0;
/// Limits of a forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelSettings {
    /// Confidence of the interval.
    pub confidence: f64,
    /// Parameters of the bootstrap.
    pub bootstrap: Bootstrap,
    /// Fraction of exceedances that belong to a detected periodic source.
    pub periodic_share: f64,
    /// Minimum number of independent peaks for a model.
    pub fewest_peaks: usize,
    /// Longest horizon for a model, in exposures.
    pub farthest: f64,
    /// Minimum shape of a tail that is too heavy.
    pub heavy_shape: f64,
    /// Error of a model's interval, as a fraction of 1 - `confidence`. The decision to refuse
    /// depends on the same peaks, tails are not of one form, and a recording is short. With a
    /// tenth, the intervals of accepted forecasts have the nominal coverage
    /// (`tests/it/coverage.rs`).
    pub error_share: f64,
}

impl Default for LevelSettings {
    fn default() -> Self {
        Self {
            confidence: 0.95,
            bootstrap: Bootstrap::default(),
            periodic_share: 0.0,
            fewest_peaks: 50,
            farthest: 30.0,
            heavy_shape: 0.5,
            error_share: 0.1,
        }
    }
}

/// Method behind a return level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Order statistics of the peaks, without a model.
    OrderStatistics,
    /// Generalised Pareto distribution of the peaks over a threshold.
    PeaksOverThreshold {
        /// Tail above the chosen threshold.
        tail: Tail,
        /// Number of peaks above it.
        peaks: usize,
    },
    /// Mixture of causes, each periodic or with a Pareto tail.
    ByCause {
        /// Number of components of the mixture.
        sources: usize,
        /// Number of periodic components.
        periodic: usize,
    },
}

/// Estimated return level.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Level that peaks exceed once per horizon on average.
    pub value: f64,
    /// Confidence interval.
    pub interval: Interval,
    /// Method.
    pub method: Method,
    /// Doubts about independent peaks of a steady process. They refuse a model, but
    /// only qualify order statistics.
    pub doubts: Vec<Reason>,
}

/// Returns the level that peaks exceed once per `horizon` on average.
///
/// Uses order statistics if the exposure is 3.69 horizons or more (at 95 %), otherwise
/// a Pareto tail if all conditions of docs/method.md 8.6 hold. `horizon` counts in the
/// time of the exposure: a week of use under a load that compresses time tenfold is a
/// tenth of that week.
///
/// # Errors
/// A [`Refusal`] with every reason and the necessary recording time.
pub fn return_level(
    peaks: &Peaks,
    horizon: f64,
    settings: &LevelSettings,
) -> Result<Estimate, Refusal> {
    let needed = exposure_without_model(horizon, settings.confidence).unwrap_or(f64::INFINITY);
    let refuse = |reasons: Vec<Reason>| refusal(reasons, peaks.exposure(), needed);
    let doubts = doubts(peaks);
    if peaks.exposure() >= needed {
        return by_order(peaks, horizon, settings, doubts).map_err(|reason| refuse(vec![reason]));
    }
    let mut reasons = limits(peaks, horizon, settings);
    reasons.extend(doubts);
    if !reasons.is_empty() {
        return Err(refuse(reasons));
    }
    by_model(peaks, horizon, settings).map_err(|reason| refuse(vec![reason]))
}

fn refusal(reasons: Vec<Reason>, exposure: f64, exposure_without_model: f64) -> Refusal {
    let needed: Option<Vec<f64>> = reasons
        .iter()
        .map(|reason| reason.exposure_needed(exposure))
        .collect();
    Refusal {
        reasons,
        exposure_for_model: needed.map(|exposures| exposures.into_iter().fold(0.0, f64::max)),
        exposure_without_model,
    }
}

impl From<InputError> for Reason {
    fn from(_: InputError) -> Self {
        Self::Unusable
    }
}

fn by_order(
    peaks: &Peaks,
    horizon: f64,
    settings: &LevelSettings,
    doubts: Vec<Reason>,
) -> Result<Estimate, Reason> {
    let (sizes, exposure) = (peaks.sizes(), peaks.exposure());
    let level = empirical_level(sizes, exposure, horizon, settings.confidence)?;
    // With fewer peaks than the rank of a limit, that limit lies below the threshold:
    // the threshold bounds it from above, and zero from below.
    let high = level.high.unwrap_or(peaks.threshold());
    let Some(value) = level.value else {
        return Err(Reason::BelowThreshold { at_most: high });
    };
    Ok(Estimate {
        value,
        interval: Interval::new(level.low.unwrap_or(0.0), high),
        method: Method::OrderStatistics,
        doubts,
    })
}

/// Checks the preconditions of an extrapolation.
pub(super) fn limits(peaks: &Peaks, horizon: f64, settings: &LevelSettings) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let (count, needed) = (peaks.sizes().len(), settings.fewest_peaks);
    if count < needed {
        let peaks = count;
        reasons.push(Reason::TooFewPeaks { peaks, needed });
    }
    let (factor, most) = (horizon / peaks.exposure(), settings.farthest);
    if factor > most {
        reasons.push(Reason::TooFar { factor, most });
    }
    if settings.periodic_share > 0.2 {
        let share = settings.periodic_share;
        reasons.push(Reason::Periodic { share });
    }
    reasons
}

/// Returns doubts about independent peaks of a steady process. Needs at least 20 peaks.
pub(super) fn doubts(peaks: &Peaks) -> Vec<Reason> {
    let sizes = peaks.sizes();
    let mut doubts = Vec::new();
    if sizes.len() < 20 {
        return doubts;
    }
    let sorted = descending(sizes);
    let equal = sorted.windows(2).filter(|pair| pair[0] == pair[1]).count();
    let share = equal as f64 / sizes.len() as f64;
    if share > 0.1 {
        doubts.push(Reason::Ties { share });
    }
    // An error here means that all peaks are equal, which `Ties` reports.
    if let Ok(test) = ljung_box(sizes, 10.min(sizes.len() / 5))
        && test.p < 0.01
    {
        doubts.push(Reason::Correlated { p: test.p });
    }
    if let Ok(test) = uniform_times(peaks.times(), peaks.exposure()) {
        let p = test.uniform_p.min(test.trend_p);
        if p < 0.01 {
            doubts.push(Reason::RateChanges { p });
        }
    }
    if let Ok(statistic) = kpss(sizes)
        && statistic > KPSS_CRITICAL_1_PERCENT
    {
        doubts.push(Reason::SizeChanges { statistic });
    }
    doubts
}

/// Excesses over one candidate threshold.
struct Candidate {
    threshold: f64,
    excesses: Vec<f64>,
    likely: Pareto,
    p: f64,
}

fn candidate(sorted: &[f64], largest: usize) -> Result<Candidate, InputError> {
    let threshold = sorted[largest];
    let excesses: Vec<f64> = sorted[..largest]
        .iter()
        .map(|size| size - threshold)
        .filter(|&excess| excess > 0.0)
        .collect();
    let likely = fit_likelihood(&excesses)?.pareto;
    let statistic = anderson_darling(&excesses, likely)?;
    let p = anderson_darling_p(statistic, likely.shape);
    Ok(Candidate {
        threshold,
        excesses,
        likely,
        p,
    })
}

/// Returns the lowest threshold whose excesses fit one Pareto distribution (docs/method.md 8.5).
fn chosen(sizes: &[f64]) -> Result<Candidate, Reason> {
    let sorted = descending(sizes);
    let mut counts: Vec<usize> = CANDIDATES
        .into_iter()
        .filter(|&largest| largest < sorted.len())
        .collect();
    if counts.is_empty() {
        counts.push(sorted.len() - 1);
    }
    let candidates: Vec<Candidate> = counts
        .into_iter()
        .map(|largest| candidate(&sorted, largest))
        .collect::<Result<_, _>>()?;
    let p_values: Vec<f64> = candidates.iter().map(|candidate| candidate.p).collect();
    let rejected = forward_stop(&p_values, 0.1)?;
    candidates.into_iter().nth(rejected).ok_or(Reason::NoFit)
}

/// Returns the tail above the lowest threshold that fits, and the number of peaks above
/// it.
pub(super) fn tail_of(peaks: &Peaks, settings: &LevelSettings) -> Result<(Tail, usize), Reason> {
    let chosen = chosen(peaks.sizes())?;
    let shape = chosen.likely.shape;
    if shape >= settings.heavy_shape {
        return Err(Reason::HeavyTail { shape });
    }
    if shape <= SHAPE_FLOOR + 1e-6 {
        return Err(Reason::BoundedTail);
    }
    let count = chosen.excesses.len();
    let tail = Tail {
        threshold: chosen.threshold,
        rate: count as f64 / peaks.exposure(),
        excess: fit_quasi_bayes(&chosen.excesses)?,
    };
    Ok((tail, count))
}

/// Returns the lowest threshold whose excesses have a Pareto tail that a forecast would use.
///
/// # Errors
/// Returns all reasons against a Pareto tail, for any horizon.
pub(crate) fn tail_threshold(peaks: &Peaks) -> Result<f64, Vec<Reason>> {
    let settings = LevelSettings::default();
    let mut reasons = limits(peaks, peaks.exposure(), &settings);
    reasons.extend(doubts(peaks));
    if !reasons.is_empty() {
        return Err(reasons);
    }
    match tail_of(peaks, &settings) {
        Ok((tail, _)) => Ok(tail.threshold),
        Err(reason) => Err(vec![reason]),
    }
}

/// Refuses an interval whose upper limit is more than `most` times the estimate.
pub(super) fn useful(value: f64, interval: Interval, most: f64) -> Result<Interval, Reason> {
    let high = interval.high;
    if !high.is_finite() || high > most * value {
        return Err(Reason::Uncertain { value, high, most });
    }
    Ok(interval)
}

fn by_model(peaks: &Peaks, horizon: f64, settings: &LevelSettings) -> Result<Estimate, Reason> {
    let (tail, count) = tail_of(peaks, settings)?;
    let value = tail.return_level(horizon)?;
    let confidence = 1.0 - settings.error_share * (1.0 - settings.confidence);
    let interval = model_interval(peaks, tail, horizon, confidence)?;
    let interval = Interval::new(interval.low.min(value), interval.high.max(value));
    Ok(Estimate {
        value,
        interval: useful(value, interval, MAX_UNCERTAINTY)?,
        method: Method::PeaksOverThreshold { tail, peaks: count },
        doubts: Vec::new(),
    })
}

/// Returns the profile-likelihood interval (Coles 2001, 4.3.3). Its upper limit is at
/// least the level of an exponential tail, because the peaks of one recording do not
/// prove that a tail is bounded.
fn model_interval(
    peaks: &Peaks,
    tail: Tail,
    horizon: f64,
    confidence: f64,
) -> Result<Interval, InputError> {
    let excesses: Vec<f64> = peaks
        .sizes()
        .iter()
        .map(|size| size - tail.threshold)
        .filter(|&excess| excess > 0.0)
        .collect();
    let interval = profile_interval(
        &excesses,
        tail.threshold,
        peaks.exposure(),
        horizon,
        confidence,
        RateUncertainty::Ignored,
    )?;
    let exponential = Tail {
        excess: Pareto::new(mean(&excesses), 0.0),
        ..tail
    };
    Ok(Interval::new(
        interval.low,
        interval.high.max(exponential.return_level(horizon)?),
    ))
}
