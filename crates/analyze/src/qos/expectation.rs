//! How many failures a run of known length will count, with an interval.

use super::observed::Pick;
use super::outlook::dispersion;
use super::runs::Runs;
use super::{Buffering, LateJobs, Observed};
use crate::counts::{SizedEvents, predicted_count, predicted_sum};
use crate::input::{at_least, positive};
use crate::{InputError, Interval};

/// A predicted count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedCount {
    /// Its mean, by the estimate of the blackouts.
    pub mean: f64,
    /// Where the count will lie. Not only the rate is uncertain: also an
    /// exactly known rate gives a count that varies.
    pub interval: Interval,
}

/// What a run of known length will count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// Failures: runs of late jobs, one of more than 100 once per 100.
    pub failures: PredictedCount,
    /// Late jobs.
    pub misses: PredictedCount,
}

/// What a stream of jobs will count in `horizon`, one CPU, after what was
/// `observed`, if nothing else changes.
///
/// The intervals reach from the prediction limit of a count by blackouts that
/// are never too long to that by those never too short. That of failures holds
/// how little is known of their rate, how a count varies even at a known one,
/// and that they come in bursts; that of late jobs also how long runs are.
///
/// # Errors
/// When there is nothing observed or a number is out of its range.
pub fn expectation(
    observed: &[Observed],
    buffering: Buffering,
    horizon: f64,
    confidence: f64,
) -> Result<Expectation, InputError> {
    at_least("observed CPUs", observed, 1)?;
    positive("horizon", horizon)?;
    let exposure = positive("exposure", observed.iter().map(|one| one.exposure).sum())?;
    let picks: [Pick; 3] = [|all| &all.inner, |all| &all.middle, |all| &all.outer];
    let [inner, middle, outer] = picks.map(|pick| {
        let list = List::of(observed, pick, buffering)?;
        let failures = list.failures(exposure, horizon, confidence)?;
        let misses = list.misses(observed, buffering, (exposure, horizon), confidence)?;
        Ok::<_, InputError>((list.runs, failures, misses))
    });
    let (inner, (runs, failures, misses), outer) = (inner?, middle?, outer?);
    let expected = |mean: f64, intervals: [Interval; 3]| PredictedCount {
        mean: mean / exposure * horizon,
        // Longer blackouts can join two episodes to one.
        interval: Interval {
            low: intervals
                .iter()
                .map(|one| one.low)
                .fold(f64::INFINITY, f64::min),
            high: intervals.iter().map(|one| one.high).fold(0.0, f64::max),
        },
    };
    Ok(Expectation {
        failures: expected(runs.failures(), [inner.1, failures, outer.1]),
        misses: expected(runs.misses, [inner.2, misses, outer.2]),
    })
}

/// What one list of blackouts brings.
struct List {
    pick: Pick,
    runs: Runs,
    /// How much more than Poisson's the counts of runs vary.
    bursts: f64,
    /// The same of late jobs.
    dispersion: f64,
}

impl List {
    fn of(observed: &[Observed], pick: Pick, buffering: Buffering) -> Result<Self, InputError> {
        let index = |what: fn(&LateJobs) -> &[f64]| {
            let found = dispersion(observed, pick, buffering, what)?;
            Ok::<_, InputError>(found.map_or(1.0, |found| found.index))
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
            // How many runs a burst has varies as a geometric number.
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
        // Where to be late is the rule, it does not come in runs.
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

    /// Isolated stalls of 8 on average, every 300 on average, known exactly.
    fn history(random: &mut rand_pcg::Pcg64Mcg) -> Observed {
        let mut exponential = |mean: f64| -mean * (1.0 - random.random::<f64>()).ln();
        let mut blackouts = Vec::new();
        let mut now = exponential(300.0);
        while now < LENGTH {
            let end = now + exponential(8.0);
            blackouts.push(Blackout { start: now, end });
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
    fn what_comes_lies_in_the_interval_as_often_as_it_says() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(11);
        let rounds = 400;
        let inside = (0..rounds)
            .filter(|_| {
                let (before, after) = (history(&mut random), history(&mut random));
                let horizon = LENGTH / 2.0;
                let said = expectation(&[before], buffering(), horizon, 0.95).unwrap();
                let blackouts = &after.blackouts.middle;
                let late = late_jobs(blackouts, horizon, buffering(), 2.5, 0.0).unwrap();
                let counted = late.episodes.len() as f64;
                said.failures.interval.contains(counted)
            })
            .count();

        let share = f64::from(u32::try_from(inside).unwrap()) / f64::from(rounds);
        assert!((0.93..=1.0).contains(&share), "{share}");
    }

    #[test]
    fn without_blackouts_nothing_is_expected_and_little_is_possible() {
        let none = Observed {
            recording: 0,
            blackouts: StreamBlackouts::default(),
            exposure: 1_000.0,
            base: 0.1,
        };

        let said = expectation(&[none], buffering(), 1_000.0, 0.95).unwrap();

        assert_eq!(said.failures.mean, 0.0);
        assert_eq!(
            said.failures.interval,
            Interval {
                low: 0.0,
                high: 5.0
            }
        );
    }
}
