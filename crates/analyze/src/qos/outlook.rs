//! How often a stream of jobs fails, with an interval (docs/method.md 6.5).

use super::failures::Failures;
use super::observed::Pick;
use super::{Buffering, LateJobs, Observed, late_jobs};
use crate::counts::{Dispersion, clustered_interval, dispersion_index};
use crate::input::{at_least, positive};
use crate::{InputError, Interval};

/// Windows in which episodes are counted to see whether they come in bursts.
const WINDOWS: usize = 20;

/// How often a stream of jobs fails: how often a run of late jobs begins, a
/// run of more than 100 counting once per 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// How long was observed, all CPUs together.
    pub exposure: f64,
    /// Failures in it, by the estimate.
    pub failures: f64,
    /// Independent clusters that these came in, by the estimate.
    pub clusters: f64,
    /// Late jobs in it, by the estimate.
    pub misses: f64,
    /// Mean time between failures; `None` below one failure.
    pub mean_time: Option<f64>,
    /// Where that mean time lies: from the replay of blackouts that are never
    /// too short and the upper limit of a rate, to those never too long and
    /// the lower limit; infinite where these are less than one failure. What
    /// stops all CPUs at once cannot be ruled out: the lower end is never above
    /// that of nothing seen in the time by the clock on the wall (the rule of
    /// three), nor below the period of the jobs, each of which fails once at
    /// most.
    pub mean_time_interval: Interval,
    /// How many times more failures vary than independent ones, where they
    /// vary more than half as much again.
    pub dispersion: Option<f64>,
}

/// Failures of this dispersion or less count as independent.
const INDEPENDENT: f64 = 1.5;

/// Replays what was `observed` on every CPU through `buffering`; all times in
/// ns.
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
    let picks: [Pick; 3] = [|all| &all.inner, |all| &all.middle, |all| &all.outer];
    let [inner, middle, outer] = picks.map(|pick| Failures::of(observed, pick, buffering));
    let (inner, middle, outer) = (inner?, middle?, outer?);
    let limits = |one: &Failures| clustered_interval(one.count, one.clusters, confidence);
    let unseen = clustered_interval(0.0, None, confidence)?.high * exposure / middle.span;
    let sure = inner.count.min(middle.count).min(outer.count) >= 1.0;
    // Longer blackouts can join two failures to one.
    let all = [limits(&inner)?, limits(&middle)?, limits(&outer)?];
    let low = all.iter().map(|one| one.low).fold(f64::INFINITY, f64::min);
    let high = all.iter().map(|one| one.high).fold(unseen, f64::max);
    // A job fails once at most.
    let most = 1.0 / buffering.period();
    let rate = Interval {
        low: if sure { low / exposure } else { 0.0 },
        high: (high / exposure).min(most),
    };
    let dispersion = middle
        .clusters
        .map(|clusters| clusters.dispersion(middle.count));
    Ok(Outlook {
        exposure,
        failures: middle.count,
        // A run that a phase of the replay cuts in pieces gives more of these
        // than failures.
        clusters: middle
            .clusters
            .map_or(0.0, |clusters| clusters.count.min(middle.count)),
        misses: middle.misses,
        mean_time: (middle.count >= 1.0).then(|| exposure / middle.count),
        mean_time_interval: rate.inverse(),
        dispersion: dispersion.filter(|&index| index > INDEPENDENT),
    })
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
    use crate::exceedance::{Blackout, StreamBlackouts};

    fn observed(stalls: &[(f64, f64)]) -> Observed {
        let blackouts: Vec<Blackout> = stalls
            .iter()
            .map(|&(start, length)| Blackout {
                start,
                end: start + length,
            })
            .collect();
        Observed {
            recording: 0,
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
    fn an_hour_without_a_failure_is_an_hour_on_64_cpus_too() {
        let found = outlook(&vec![observed(&[]); 64], buffering(), 0.95).unwrap();

        assert_eq!(found.exposure, 640_000.0);
        assert!((found.mean_time_interval.low - 10_000.0 / 2.9957).abs() < 1.0);
    }

    #[test]
    fn recordings_one_after_the_other_add_up() {
        let recording = |recording| Observed {
            recording,
            ..observed(&[])
        };
        let both = [recording(0), recording(1)];

        let found = outlook(&both, buffering(), 0.95).unwrap();

        assert!((found.mean_time_interval.low - 20_000.0 / 2.9957).abs() < 1.0);
    }

    #[test]
    fn less_than_one_failure_gives_no_estimate_and_no_upper_end() {
        // 0.03 beyond the slack of 10.5: one phase in 16 sees it, if any.
        let found = outlook(&[observed(&[(1_000.3, 10.75)])], buffering(), 0.95).unwrap();

        assert!((0.01..1.0).contains(&found.failures), "{found:?}");
        assert_eq!(found.mean_time, None);
        assert_eq!(found.mean_time_interval.high, f64::INFINITY);
        assert!(found.mean_time_interval.low <= 10_000.0 / 2.9957);
    }

    /// Stalls of 30 at irregular distances.
    fn stalls(count: u32, apart: f64) -> Vec<(f64, f64)> {
        (0..count)
            .map(|k| {
                let jitter = f64::from(k * 7 % 5) / 10.0 - 0.2;
                (300.0 + apart * (f64::from(k) + jitter), 30.0)
            })
            .collect()
    }

    #[test]
    fn stalls_that_hit_all_cpus_at_once_are_no_more_than_on_one() {
        let stalls = stalls(20, 480.0);
        let one = outlook(&[observed(&stalls)], buffering(), 0.95).unwrap();
        let many = outlook(&vec![observed(&stalls); 64], buffering(), 0.95).unwrap();

        assert_eq!((many.failures, many.exposure), (20.0 * 64.0, 640_000.0));
        assert_eq!(many.mean_time, one.mean_time);
        let (one, many) = (one.mean_time_interval, many.mean_time_interval);
        assert!(
            many.low < one.low * 1.1 && many.high > one.high * 0.9,
            "{one:?} {many:?}"
        );
    }

    #[test]
    fn to_be_always_late_is_not_one_failure() {
        let found = outlook(&[observed(&[(10.0, 9_980.0)])], buffering(), 0.95).unwrap();

        assert!((found.failures - 16.6).abs() < 0.2, "{found:?}");
        // Nor is it a rare chance.
        assert!(found.clusters > 10.0, "{found:?}");
    }

    #[test]
    fn no_more_jobs_fail_than_there_are() {
        // One burst: of the rate of such an interval tells little.
        let burst = (0..40).map(|k| (50.0 + 18.0 * f64::from(k), 12.0));
        let storm = Observed {
            exposure: 1_000.0,
            ..observed(&burst.collect::<Vec<_>>())
        };

        let found = outlook(&[storm], buffering(), 0.95).unwrap();

        assert!(found.failures > 5.0, "{found:?}");
        assert_eq!(found.mean_time_interval.low, buffering().period());
    }

    #[test]
    fn a_storm_of_stalls_widens_the_interval() {
        let interval =
            |stalls: &[(f64, f64)]| outlook(&[observed(stalls)], buffering(), 0.95).unwrap();

        let (spread, storm) = (interval(&stalls(20, 480.0)), interval(&stalls(20, 60.0)));

        assert_eq!(spread.dispersion, None);
        assert!(
            storm.dispersion.is_some_and(|index| index > 3.0),
            "{storm:?}"
        );
        assert!(storm.mean_time_interval.low < spread.mean_time_interval.low);
    }
}
