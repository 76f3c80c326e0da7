//! Prediction of the number of failures in a run of known length.

use super::failures::{Failures, LONG_RUN};
use super::observed::Pick;
use super::outlook::dispersion;
use super::runs::Runs;
use super::{Buffering, LateJobs, Observed};
use crate::counts::{SizedEvents, SlowVariation, predicted_count, predicted_sum};
use crate::input::{at_least, positive};
use crate::{InputError, Interval};

/// Predicted count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedCount {
    /// Mean, from the estimated blackouts.
    pub mean: f64,
    /// Prediction interval. It covers the uncertain rate and the variation of a count
    /// at a known rate.
    pub interval: Interval,
}

/// Prediction for a run of known length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// Failures: runs of late jobs; a run of more than 100 counts once per 100.
    pub failures: PredictedCount,
    /// Late jobs.
    pub misses: PredictedCount,
}

/// Predicts the counts of a stream of jobs in `horizon` on one CPU, from `observed`, if
/// nothing changes.
///
/// The intervals extend from the prediction limit with blackouts that are never too
/// long to the limit with blackouts that are never too short. The interval of failures
/// covers the uncertainty of their rate, the variation of a count at a known rate, slow
/// variation of the rate, and bursts; the interval of late jobs also covers the length of runs.
///
/// # Errors
/// If nothing was observed or a number is out of its range.
pub fn expectation(
    observed: &[Observed],
    buffering: Buffering,
    horizon: f64,
    confidence: f64,
) -> Result<Expectation, InputError> {
    at_least("observed CPUs", observed, 1)?;
    positive("horizon", horizon)?;
    let exposure = positive("exposure", observed.iter().map(|cpu| cpu.exposure).sum())?;
    let picks: [Pick; 3] = [
        |blackouts| &blackouts.inner,
        |blackouts| &blackouts.middle,
        |blackouts| &blackouts.outer,
    ];
    let [inner, middle, outer] = picks.map(|pick| {
        let list = List::new(observed, pick, buffering)?;
        let observed_failures = Failures::new(observed, pick, buffering)?;
        // Failures of all CPUs together, in the time of one of them.
        let slow = observed_failures
            .clusters
            .and_then(|clusters| clusters.slow);
        let slow = slow.filter(SlowVariation::is_shown);
        let slow =
            slow.map(|slow| slow.prediction(1.0, horizon / observed_failures.span, confidence));
        let slow = slow.transpose()?;
        // The sum of a time of the same length is 1.
        let widened = |steady: Interval, count: f64| {
            slow.map_or(steady, |slow| {
                let each = count / exposure * observed_failures.span;
                Interval::new(
                    steady.low.min((slow.low * each).floor()),
                    steady.high.max((slow.high * each).ceil()),
                )
            })
        };
        let misses = list.misses(observed, buffering, (exposure, horizon), confidence)?;
        let misses = widened(misses, list.runs.misses);
        let failures = if list.runs.are_long() {
            // One per 100 late jobs: they are not more independent than these.
            Interval::new(misses.low / LONG_RUN, misses.high / LONG_RUN)
        } else {
            widened(
                list.failures(exposure, horizon, confidence)?,
                list.runs.failures(),
            )
        };
        Ok::<_, InputError>((list.runs, failures, misses))
    });
    let (inner, (runs, failures, misses), outer) = (inner?, middle?, outer?);
    let expected = |mean: f64, intervals: [Interval; 3]| PredictedCount {
        mean: mean / exposure * horizon,
        // Longer blackouts can merge two episodes.
        interval: Interval::new(
            intervals
                .iter()
                .map(|interval| interval.low)
                .fold(f64::INFINITY, f64::min),
            intervals
                .iter()
                .map(|interval| interval.high)
                .fold(0.0, f64::max),
        ),
    };
    Ok(Expectation {
        failures: expected(runs.failures(), [inner.1, failures, outer.1]),
        misses: expected(runs.misses, [inner.2, misses, outer.2]),
    })
}

/// Counts from one list of blackouts.
struct List {
    pick: Pick,
    runs: Runs,
    /// Variance of the counts of runs, relative to Poisson.
    bursts: f64,
    /// Variance of the counts of late jobs, relative to Poisson.
    dispersion: f64,
}

impl List {
    fn new(observed: &[Observed], pick: Pick, buffering: Buffering) -> Result<Self, InputError> {
        let index = |what: fn(&LateJobs) -> &[f64]| {
            let variance = dispersion(observed, pick, buffering, what)?;
            Ok::<_, InputError>(variance.map_or(1.0, |dispersion| dispersion.index))
        };
        Ok(Self {
            pick,
            runs: Runs::of(observed, pick, buffering)?,
            bursts: index(|late| &late.episodes)?,
            dispersion: index(|late| &late.misses)?,
        })
    }

    fn failures(
        &self,
        exposure: f64,
        horizon: f64,
        confidence: f64,
    ) -> Result<Interval, InputError> {
        let failures = self.runs.failures();
        if self.bursts <= 1.0 {
            return predicted_count(failures, exposure, horizon, 1.0, confidence);
        }
        let bursts = SizedEvents {
            seen: failures / self.bursts,
            mean: self.bursts,
            // The number of runs in a burst varies as a geometric number.
            variation: 1.0 - 1.0 / self.bursts,
            sizes: failures.max(1.0) / self.bursts,
            largest: self.bursts,
        };
        predicted_sum(bursts, exposure, horizon, confidence)
    }

    fn misses(
        &self,
        observed: &[Observed],
        buffering: Buffering,
        (exposure, horizon): (f64, f64),
        confidence: f64,
    ) -> Result<Interval, InputError> {
        let misses = self.runs.misses;
        // If most jobs are late, they do not come in runs.
        if misses > exposure / buffering.period() / 2.0 {
            return predicted_count(misses, exposure, horizon, self.dispersion, confidence);
        }
        let spread = (self.bursts, self.dispersion);
        let bursts = self.runs.bursts(observed, self.pick, buffering, spread)?;
        predicted_sum(bursts, exposure, horizon, confidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceedance::Blackout;
    use crate::exceedance::StreamBlackouts;
    use crate::qos::late_jobs;
    use rand::{RngExt, SeedableRng};

    const LENGTH: f64 = 30_000.0;

    fn buffering() -> Buffering {
        Buffering::new(2, 5.0, 1.0).unwrap()
    }

    /// Returns isolated stalls of 8 on average, every 300 on average with exact times.
    fn history(random: &mut rand_pcg::Pcg64Mcg) -> Observed {
        let mut exponential = |mean: f64| -mean * (1.0 - random.random::<f64>()).ln();
        let mut blackouts = Vec::new();
        let mut now = exponential(300.0);
        while now < LENGTH {
            let end = now + exponential(8.0);
            blackouts.push(Blackout::new(now, end));
            now = end + exponential(300.0);
        }
        Observed {
            recording: 0,
            blackouts: StreamBlackouts {
                inner: blackouts.clone(),
                middle: blackouts.clone(),
                outer: blackouts,
            },
            exposure: LENGTH,
            base: 0.0,
        }
    }

    #[test]
    fn prediction_interval_has_its_nominal_coverage() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(11);
        let rounds = 400;
        let inside = (0..rounds)
            .filter(|_| {
                let (before, after) = (history(&mut random), history(&mut random));
                let horizon = LENGTH / 2.0;
                let prediction = expectation(&[before], buffering(), horizon, 0.95).unwrap();
                let blackouts = &after.blackouts.middle;
                let late = late_jobs(blackouts, horizon, buffering(), 2.5, 0.0).unwrap();
                let counted = late.episodes.len() as f64;
                prediction.failures.interval.contains(counted)
            })
            .count();

        let share = f64::from(u32::try_from(inside).unwrap()) / f64::from(rounds);
        assert!((0.93..=1.0).contains(&share), "{share}");
    }

    #[test]
    fn prediction_without_blackouts_allows_a_few() {
        let none = Observed {
            recording: 0,
            blackouts: StreamBlackouts::default(),
            exposure: 1_000.0,
            base: 0.1,
        };

        let prediction = expectation(&[none], buffering(), 1_000.0, 0.95).unwrap();

        assert_eq!(prediction.failures.mean, 0.0);
        assert_eq!(prediction.failures.interval, Interval::new(0.0, 5.0));
    }
}
