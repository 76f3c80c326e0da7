//! How many failures a run of known length will count, with an interval.

use super::outlook::{PHASES, dispersion, failures_in};
use super::{Buffering, LateJobs, MeanReplay, Observed, late_over_phases};
use crate::counts::predicted_count;
use crate::input::{at_least, positive};
use crate::{InputError, Interval};

/// A count that is to come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
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
    pub failures: Expected,
    /// Late jobs.
    pub misses: Expected,
}

/// What a stream of jobs will count in `horizon`, one CPU, after what was
/// `observed`, if nothing else changes.
///
/// The interval reaches from the prediction limit of a count by blackouts that
/// are never too long to that by those never too short, each widened by how
/// much more the counts varied over the observation than Poisson's.
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
    let (mut inner, mut middle, mut outer) = (Vec::new(), Vec::new(), Vec::new());
    for one in observed {
        let replay =
            |blackouts| late_over_phases(blackouts, one.exposure, buffering, PHASES, one.base);
        inner.push(replay(&one.blackouts.inner)?);
        middle.push(replay(&one.blackouts.middle)?);
        outer.push(replay(&one.blackouts.outer)?);
    }
    let expected = |count: fn(MeanReplay) -> f64, times: fn(&LateJobs) -> &[f64]| {
        let sum = |replays: &[MeanReplay]| replays.iter().map(|&one| count(one)).sum::<f64>();
        // Longer blackouts can join two episodes to one.
        let sums = [sum(&inner), sum(&middle), sum(&outer)];
        let fewest = sums.into_iter().fold(f64::INFINITY, f64::min);
        let most = sums.into_iter().fold(0.0, f64::max);
        let bursts = dispersion(observed, buffering, times)?.map_or(1.0, |found| found.index);
        let limits = |events| predicted_count(events, exposure, horizon, bursts, confidence);
        Ok(Expected {
            mean: sums[1] / exposure * horizon,
            interval: Interval {
                low: limits(fewest)?.low,
                high: limits(most)?.high,
            },
        })
    };
    Ok(Expectation {
        failures: expected(failures_in, |late| &late.episodes)?,
        misses: expected(|replay| replay.misses, |late| &late.misses)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceedance::StreamBlackouts;
    use crate::qos::{Blackout, late_jobs};
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
                #[allow(clippy::cast_precision_loss)]
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
