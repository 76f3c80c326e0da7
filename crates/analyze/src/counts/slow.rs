//! Uncertainty of a mean rate that varies slowly: on time scales that are not much
//! shorter than the recording.
//!
//! Windows of the time show the variance of a count only on scales below their length.
//! If the rate differs from minute to minute, a recording of two minutes has two
//! independent values of it. The lowest frequencies show its slow variation: the sums of the events, weighted with cosines of a half to four periods
//! (Müller & Watson 2008; Lazarus, Lewis, Stock & Watson 2018).
//! The weighted sums are approximately normal and independent. The variance of each is
//! the variance by chance, plus the share of the slow variation at its frequency.
//!
//! **Model.** The rate is steady, or it has a standard deviation of 0.3 to 3 times its
//! mean and a correlation time of 0.1 to 1 recordings (exponential correlation). Bayes'
//! rule weighs these possibilities with the likelihood of the weighted sums. Given one
//! of them, the logarithm of the observed sum divided by its expectation is normal. The
//! interval has the quantiles of the mixture (Müller & Watson 2016: an
//! interval for a long-run mean by the same weights with unknown persistence). The prior
//! weights and values were chosen by the coverage in simulations
//! (docs/validation/coverage.md).
//!
//! **Limits.** The events of one recording do not show variation on scales longer than
//! the recording, nor a state that did not occur in it.

use statrs::distribution::{ContinuousCDF, Normal};

use super::groups::{Circle, Event};
use crate::input::{not_negative, positive, probability};
use crate::solve::root_between;
use crate::{InputError, Interval};

/// Number of weighted sums: cosines of 1/2, 1, 3/2, ... periods of the time.
const FREQUENCIES: usize = 8;
/// Correlation times of the rate, as fractions of the recording.
const CORRELATION_TIMES: [f64; 3] = [0.1, 0.3, 1.0];
/// Standard deviations of the rate, relative to its mean.
const DEVIATIONS: [f64; 4] = [0.3, 0.7, 1.5, 3.0];
/// Prior probability of a steady rate. The others share the rest equally.
const STEADY: f64 = 0.2;
/// Minimum Bayes factor of a recording with slow variation. By simulation with at least 8 events:
/// 12 and 6 % of the steady recordings with 30 and 100 events reach it, and 92 % of the recordings
/// whose rate changes five times.
const MIN_EVIDENCE: f64 = 0.7;
/// Minimum number of independent events that can show slow variation.
const MIN_EVENTS: f64 = 5.0;
/// Number of possibilities.
const COMPONENTS: usize = 1 + CORRELATION_TIMES.len() * DEVIATIONS.len();

/// One possibility: its weight, and the variation of the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Component {
    weight: f64,
    /// Variance of the rate, relative to the square of its mean.
    variance: f64,
    /// Correlation time, as a fraction of the observed time.
    time: f64,
}

/// Normal distribution of a logarithm.
#[derive(Clone, Copy, Debug)]
struct LogNormal {
    mean: f64,
    deviation: f64,
}

/// Distribution of a mean rate that may vary slowly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowVariation {
    components: [Component; COMPONENTS],
    /// Variance of the sum of events by chance, relative to the square of the sum.
    chance: f64,
}

impl SlowVariation {
    /// Weighs the possible variations of the rate of `events`, in time order, in a
    /// `span` that starts at zero; `None` without events.
    ///
    /// # Errors
    /// If the span is not positive, or the size of an event is zero.
    pub fn estimate(events: &[Event], span: f64) -> Result<Option<Self>, InputError> {
        positive("span", span)?;
        if events.is_empty() {
            return Ok(None);
        }
        let sum: f64 = events.iter().map(|event| event.size).sum();
        positive("sum of the events", sum)?;
        let chance = Circle { events, span }.variance_by_chance() / (sum * sum);
        let weighted = weighted_sums(events, span).map(|weighted| weighted / sum);
        Ok(Some(Self::from_spectrum(&weighted, chance)))
    }

    /// Weighs the possibilities by the `weighted` sums and the variance by `chance`, both
    /// relative to the sum of all events.
    fn from_spectrum(weighted: &[f64; FREQUENCIES], chance: f64) -> Self {
        let mut components = [Component::default(); COMPONENTS];
        let mut possibilities = vec![(STEADY, 0.0, 1.0)];
        for time in CORRELATION_TIMES {
            for deviation in DEVIATIONS {
                let prior = (1.0 - STEADY) / (COMPONENTS - 1) as f64;
                possibilities.push((prior, deviation * deviation, time));
            }
        }
        let log_likelihood = |variance: f64, time: f64| -> f64 {
            let terms = (1..).zip(weighted).map(|(frequency, weighted)| {
                let expected = chance + variance * spectrum(frequency, time);
                -0.5 * (expected.ln() + weighted * weighted / expected)
            });
            terms.sum()
        };
        let mut largest = f64::NEG_INFINITY;
        for (component, (prior, variance, time)) in components.iter_mut().zip(possibilities) {
            *component = Component {
                weight: prior.ln() + log_likelihood(variance, time),
                variance,
                time,
            };
            largest = largest.max(component.weight);
        }
        let mut total = 0.0;
        for component in &mut components {
            component.weight = (component.weight - largest).exp();
            total += component.weight;
        }
        for component in &mut components {
            component.weight /= total;
        }
        Self { components, chance }
    }

    /// Returns whether the events show slow variation: a steady rate does not explain them
    /// much better.
    pub fn is_shown(&self) -> bool {
        self.chance * MIN_EVENTS <= 1.0 && self.evidence() > MIN_EVIDENCE
    }

    /// Returns the likelihood of all variations together, relative to a steady rate (Bayes
    /// factor).
    fn evidence(&self) -> f64 {
        let steady = self.components[0].weight;
        (1.0 - steady) / steady * STEADY / (1.0 - STEADY)
    }

    /// Returns the variation in a time that is this multiple of the observed one, if the rate
    /// continues to vary in the same way.
    pub fn repeated(mut self, times: f64) -> Self {
        for component in &mut self.components {
            component.time /= times;
        }
        self.chance /= times;
        self
    }

    /// Returns the interval of the expected sum of events if `sum` was observed.
    ///
    /// # Errors
    /// If a number is out of its range.
    pub fn interval(&self, sum: f64, confidence: f64) -> Result<Interval, InputError> {
        let part = |component: &Component| {
            let slow = component.slow();
            let log = LogNormal {
                // The mean of a lognormal variable exceeds its median.
                mean: 0.5 * slow.ln_1p(),
                deviation: (self.chance + slow).ln_1p().sqrt(),
            };
            (component.weight, log)
        };
        mixture_limits(
            &self.components.map(|component| part(&component)),
            sum,
            confidence,
        )
    }

    /// Returns the prediction interval of the sum of events in a time that is this multiple of
    /// the observed one, if `sum` was observed.
    ///
    /// # Errors
    /// If a number is out of its range.
    pub fn prediction(
        &self,
        sum: f64,
        times: f64,
        confidence: f64,
    ) -> Result<Interval, InputError> {
        let times = positive("multiple of the time", times)?;
        let ahead = self.repeated(times);
        let pairs = self.components.iter().zip(&ahead.components);
        let of_pair = |(past, future): (&Component, &Component)| {
            let (before, after) = (past.slow(), future.slow());
            let variance = (self.chance + before).ln_1p() + (ahead.chance + after).ln_1p();
            let log = LogNormal {
                mean: 0.5 * (before.ln_1p() - after.ln_1p()),
                deviation: variance.sqrt(),
            };
            (past.weight, log)
        };
        let parts: Vec<_> = pairs.map(of_pair).collect();
        mixture_limits(&parts, sum * times, confidence)
    }
}

impl Component {
    /// Returns the variance of the mean rate, relative to the square of its mean.
    fn slow(&self) -> f64 {
        self.variance * spectrum(0, self.time)
    }
}

/// Returns the limits of `sum` times a variable whose logarithm has these distributions.
fn mixture_limits(
    parts: &[(f64, LogNormal)],
    sum: f64,
    confidence: f64,
) -> Result<Interval, InputError> {
    not_negative("sum", sum)?;
    let tail = (1.0 - probability("confidence", confidence)?) / 2.0;
    let normal = Normal::standard();
    let below = |log: f64| -> f64 {
        let each = parts
            .iter()
            .map(|(weight, part)| weight * normal.cdf((log - part.mean) / part.deviation));
        each.sum()
    };
    let limit = |share: f64| sum * root_between(|log| below(log) - share, -50.0, 50.0).exp();
    Ok(Interval::new(limit(tail), limit(1.0 - tail)))
}

/// Returns the sums of the events, weighted with cosines of unit mean square.
fn weighted_sums(events: &[Event], span: f64) -> [f64; FREQUENCIES] {
    let mut sums = [0.0; FREQUENCIES];
    for event in events {
        let angle = std::f64::consts::PI * event.at / span;
        // cos((k + 1) x) = 2 cos(x) cos(k x) - cos((k - 1) x)
        let first = angle.cos();
        let (mut before, mut now) = (1.0, first);
        for sum in &mut sums {
            *sum += std::f64::consts::SQRT_2 * event.size * now;
            (before, now) = (now, 2.0 * first * now - before);
        }
    }
    sums
}

/// Returns the variance of the weighted mean of a rate of unit variance whose
/// correlation decreases exponentially, with the correlation `time`, over a time of 1.
/// The weight has `frequency` half periods; 0 is the plain mean. (Double integral of
/// the covariance; derived here.)
fn spectrum(frequency: usize, time: f64) -> f64 {
    let decay = 1.0 / time;
    let end = (-decay).exp();
    if frequency == 0 {
        return 2.0 * time * (1.0 - time * (1.0 - end));
    }
    let end = if frequency.is_multiple_of(2) {
        end
    } else {
        -end
    };
    let angle = std::f64::consts::PI * frequency as f64;
    let square = decay * decay + angle * angle;
    (2.0 * decay - 4.0 * decay * decay * (1.0 - end) / square) / square
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, proptest};

    /// By quadrature with `NumPy` (400 x 400 midpoints).
    #[test]
    fn spectrum_is_the_double_integral() {
        for (frequency, time, expected) in SPECTRUM {
            let value = spectrum(frequency, time);
            assert!(
                (value - expected).abs() < 2e-5,
                "{frequency}, {time}: {value}"
            );
        }
    }

    const SPECTRUM: [(usize, f64, f64); 6] = [
        (0, 0.1, 0.180012),
        (1, 0.1, 0.148908),
        (0, 0.3, 0.426426),
        (2, 0.3, 0.115037),
        (1, 1.0, 0.137690),
        (8, 1.0, 0.003156),
    ];

    fn even(count: u32) -> Vec<Event> {
        (0..count)
            .map(|event| Event {
                at: (f64::from(event) + 0.5) / f64::from(count),
                size: 1.0,
            })
            .collect()
    }

    #[test]
    fn change_between_halves_widens_the_interval() {
        let width = |events: &[Event]| {
            let slow = SlowVariation::estimate(events, 1.0).unwrap().unwrap();
            let interval = slow.interval(events.len() as f64, 0.95).unwrap();
            interval.high / interval.low
        };
        let mut halves = even(40);
        halves.retain(|event| event.at < 0.5);
        halves.extend(even(4).into_iter().filter(|event| event.at > 0.5));

        assert!(width(&even(22)) < 6.0, "{}", width(&even(22)));
        assert!(width(&halves) > 8.0, "{}", width(&halves));
    }

    #[test]
    fn change_between_halves_is_shown_and_even_or_few_events_show_none() {
        let is_shown = |events: &[Event]| {
            SlowVariation::estimate(events, 1.0)
                .unwrap()
                .unwrap()
                .is_shown()
        };
        let mut halves = even(80);
        halves.retain(|event| event.at < 0.5);
        halves.extend(even(8).into_iter().filter(|event| event.at > 0.5));

        assert!(is_shown(&halves));
        assert!(!is_shown(&even(20)));
        assert!(!is_shown(&halves[..4]));
    }

    #[test]
    fn no_events_have_no_variation() {
        assert_eq!(SlowVariation::estimate(&[], 1.0), Ok(None));
        assert!(SlowVariation::estimate(&even(2), 0.0).is_err());
    }

    proptest! {
        #[test]
        fn interval_contains_the_sum_and_grows_with_the_confidence(
            mut times in prop::collection::vec(0.0..1.0_f64, 1..60), confidence in 0.5..0.999_f64,
        ) {
            times.sort_by(f64::total_cmp);
            let events: Vec<Event> = times.iter().map(|&time| Event { at: time, size: 1.0 }).collect();
            let slow = SlowVariation::estimate(&events, 1.0).unwrap().unwrap();
            let sum = events.len() as f64;
            let (half, whole) = (
                slow.interval(sum, confidence / 2.0 + 0.25).unwrap(),
                slow.interval(sum, confidence).unwrap(),
            );

            prop_assert!(whole.low > 0.0 && whole.low < whole.high, "{whole:?}");
            if confidence > 0.6 {
                prop_assert!(whole.low <= half.low && half.high <= whole.high);
                prop_assert!(whole.low <= sum);
            }
        }
    }
}
