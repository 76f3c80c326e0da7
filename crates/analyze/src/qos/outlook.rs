//! How often a stream of jobs fails, with an interval (METHODS 1.4, 1.7).

use super::runs::Pick;
use super::{Buffering, LateJobs, MeanReplay, late_jobs, late_over_phases};
use crate::counts::{Dispersion, dispersion_index, rate_interval, rate_upper_limit, widened};
use crate::exceedance::StreamBlackouts;
use crate::input::{at_least, positive};
use crate::{InputError, Interval};

/// Phases over which each replay is averaged.
pub(super) const PHASES: u32 = 16;
/// Windows in which episodes are counted to see whether they come in bursts.
const WINDOWS: usize = 20;

/// The blackouts of one CPU, and what jobs find there between them.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The blackouts, since the start of the observation.
    pub blackouts: StreamBlackouts,
    /// How long was observed.
    pub exposure: f64,
    /// The ordinary latency, which every job pays.
    pub base: f64,
}

/// A run of more late jobs than this counts once per so many: an application
/// that is always late does not fail once.
pub(super) const LONG_RUN: f64 = 100.0;

/// How often a stream of jobs fails: how often a run of late jobs begins, a
/// run of more than 100 counting once per 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// How long was observed, all CPUs together.
    pub exposure: f64,
    /// Failures in it, by the estimate.
    pub failures: f64,
    /// Late jobs in it, by the estimate.
    pub misses: f64,
    /// Mean time between failures; `None` when there was none.
    pub mean_time: Option<f64>,
    /// Where that mean time lies: from the replay of blackouts that are never
    /// too short and the upper limit of a rate, to those never too long and
    /// the lower limit. Without a failure the lower end is one-sided (the
    /// rule of three) and the upper infinite.
    pub mean_time_interval: Interval,
    /// How many times more the counts vary than Poisson's do, where that was
    /// noticed: the interval is widened by its root.
    pub dispersion: Option<f64>,
}

/// Replays what was `observed` on every CPU through `buffering`; all times in
/// one unit.
///
/// # Errors
/// When there is nothing observed or a number is out of its range.
pub fn outlook(
    observed: &[Observed],
    buffering: Buffering,
    confidence: f64,
) -> Result<Outlook, InputError> {
    at_least("observed CPUs", observed, 1)?;
    let exposure = positive("exposure", observed.iter().map(|one| one.exposure).sum())?;
    let (mut fewest, mut most, mut failures, mut misses) = (0.0, 0.0, 0.0, 0.0);
    for one in observed {
        let replay =
            |blackouts| late_over_phases(blackouts, one.exposure, buffering, PHASES, one.base);
        let estimate = replay(&one.blackouts.middle)?;
        fewest += failures_in(replay(&one.blackouts.inner)?);
        most += failures_in(replay(&one.blackouts.outer)?);
        failures += failures_in(estimate);
        misses += estimate.misses;
    }
    // Longer blackouts can join two episodes to one.
    let (fewest, most) = (
        fewest.min(failures).min(most),
        most.max(failures).max(fewest),
    );
    let dispersion = burstiness(observed, buffering)?;
    let limits = |events: f64| -> Result<Interval, InputError> {
        let interval = rate_interval(events, exposure, confidence)?;
        Ok(widened(
            interval,
            events / exposure,
            dispersion.unwrap_or(1.0),
        ))
    };
    let high = if most > 0.0 {
        limits(most)?.high
    } else {
        rate_upper_limit(0.0, exposure, confidence)?
    };
    let low = limits(fewest)?.low;
    Ok(Outlook {
        exposure,
        failures,
        misses,
        mean_time: (failures > 0.0).then(|| exposure / failures),
        mean_time_interval: Interval { low, high }.inverse(),
        dispersion,
    })
}

fn failures_in(replay: MeanReplay) -> f64 {
    failures_of_counts(replay.episodes, replay.misses)
}

/// The failures that `episodes` runs of late jobs with `misses` jobs in all
/// count as: a run of more than 100 counts once per 100.
pub const fn failures_of_counts(episodes: f64, misses: f64) -> f64 {
    episodes.max(misses / LONG_RUN)
}

/// The index of dispersion of episodes in windows of the time, all CPUs
/// together, where it is not that of a Poisson process: stalls that hit
/// several CPUs at once count here, too.
fn burstiness(observed: &[Observed], buffering: Buffering) -> Result<Option<f64>, InputError> {
    let found = dispersion(
        observed,
        |all| &all.middle,
        buffering,
        |late| &late.episodes,
    )?;
    Ok(found
        .filter(|found| found.p < 0.01 && found.index > 1.0)
        .map(|found| found.index))
}

/// How the counts of `what` vary over windows of the time; `None` without any.
pub(super) fn dispersion(
    observed: &[Observed],
    pick: Pick,
    buffering: Buffering,
    what: impl Fn(&LateJobs) -> &[f64],
) -> Result<Option<Dispersion>, InputError> {
    let longest = observed.iter().map(|one| one.exposure).fold(0.0, f64::max);
    let mut counts = vec![0.0; WINDOWS];
    for one in observed {
        let phase = buffering.period() / 2.0;
        let blackouts = pick(&one.blackouts);
        let late = late_jobs(blackouts, one.exposure, buffering, phase, one.base)?;
        for at in what(&late) {
            let window = crate::sample::index(at / longest * WINDOWS as f64);
            counts[window.min(WINDOWS - 1)] += 1.0;
        }
    }
    if counts.iter().all(|&count| count == 0.0) {
        return Ok(None);
    }
    dispersion_index(&counts).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qos::Blackout;

    fn observed(stalls: &[(f64, f64)]) -> Observed {
        let blackouts: Vec<Blackout> = stalls
            .iter()
            .map(|&(start, length)| Blackout {
                start,
                end: start + length,
            })
            .collect();
        Observed {
            blackouts: StreamBlackouts {
                inner: blackouts.clone(),
                middle: blackouts.clone(),
                outer: blackouts,
            },
            exposure: 10_000.0,
            base: 0.0,
        }
    }

    fn buffering() -> Buffering {
        Buffering::new(3, 6.0, 1.5).unwrap()
    }

    #[test]
    fn without_a_miss_the_rule_of_three_bounds_the_mean_time_from_below() {
        let found = outlook(&[observed(&[(50.0, 3.0)])], buffering(), 0.95).unwrap();

        assert_eq!((found.mean_time, found.misses), (None, 0.0));
        assert!((found.mean_time_interval.low - 10_000.0 / 2.9957).abs() < 1.0);
        assert_eq!(found.mean_time_interval.high, f64::INFINITY);
    }

    #[test]
    fn every_long_stall_is_an_episode_on_every_cpu() {
        let stalls: Vec<(f64, f64)> = (0..20)
            .map(|k| (100.0 + 480.0 * f64::from(k), 30.0))
            .collect();

        let found = outlook(&[observed(&stalls), observed(&stalls)], buffering(), 0.95).unwrap();

        assert_eq!((found.failures, found.exposure), (40.0, 20_000.0));
        assert_eq!(found.mean_time, Some(500.0));
        assert!(found.mean_time_interval.contains(500.0));
    }

    #[test]
    fn to_be_always_late_is_not_one_failure() {
        let found = outlook(&[observed(&[(10.0, 9_980.0)])], buffering(), 0.95).unwrap();

        assert!((found.failures - 16.6).abs() < 0.2, "{found:?}");
    }

    #[test]
    fn a_storm_of_stalls_widens_the_interval() {
        let spread: Vec<(f64, f64)> = (0..20)
            .map(|k| (100.0 + 480.0 * f64::from(k), 30.0))
            .collect();
        let storm: Vec<(f64, f64)> = (0..20)
            .map(|k| (100.0 + 60.0 * f64::from(k), 30.0))
            .collect();
        let interval =
            |stalls: &[(f64, f64)]| outlook(&[observed(stalls)], buffering(), 0.95).unwrap();

        let (spread, storm) = (interval(&spread), interval(&storm));

        assert_eq!(spread.dispersion, None);
        assert!(
            storm.dispersion.is_some_and(|index| index > 3.0),
            "{storm:?}"
        );
        assert!(storm.mean_time_interval.low < spread.mean_time_interval.low);
    }
}
