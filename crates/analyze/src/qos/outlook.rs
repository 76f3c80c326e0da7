//! Failure rate of a stream of jobs, with an interval (docs/method.md 6.5).

use super::failures::Failures;
use super::observed::Pick;
use super::{Buffering, LateJobs, Observed, late_jobs};
use crate::counts::{Dispersion, clustered_interval, dispersion_index};
use crate::input::{at_least, positive};
use crate::{InputError, Interval};

/// Number of windows for counting episodes, which detects bursts.
const WINDOWS: usize = 20;

/// Failure rate of a stream of jobs. A failure is the start of a run of late jobs; a
/// run of more than 100 counts once per 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// Observed time, summed over all CPUs.
    pub exposure: f64,
    /// Estimated number of failures.
    pub failures: f64,
    /// Estimated number of independent clusters of failures.
    pub clusters: f64,
    /// Estimated number of late jobs.
    pub misses: f64,
    /// Mean time between failures; `None` below one failure.
    pub mean_time: Option<f64>,
    /// Interval of the mean time. The lower end is from the replay of blackouts that
    /// are never too short and the upper limit of a rate; the upper end is from
    /// blackouts that are never too long and the lower limit, and infinite if these
    /// give less than one failure. Simultaneous stops of all CPUs cannot be excluded,
    /// so the lower end is at most the rule of three for the wall-clock time. It is at
    /// least the period of the jobs, because each fails at most once.
    pub mean_time_interval: Interval,
    /// Variance of the failures relative to independent ones, if it is more than 1.5.
    pub dispersion: Option<f64>,
}

/// Maximum dispersion of failures that count as independent.
const MAX_INDEPENDENT_DISPERSION: f64 = 1.5;

/// Replays the observation of every CPU through `buffering`; all times in ns.
///
/// # Errors
/// If nothing was observed or a number is out of its range.
pub fn outlook(
    observed: &[Observed],
    buffering: Buffering,
    confidence: f64,
) -> Result<Outlook, InputError> {
    at_least("observed CPUs", observed, 1)?;
    let exposure = positive("exposure", observed.iter().map(|cpu| cpu.exposure).sum())?;
    let picks: [Pick; 3] = [
        |blackouts| &blackouts.inner,
        |blackouts| &blackouts.middle,
        |blackouts| &blackouts.outer,
    ];
    let [inner, middle, outer] = picks.map(|pick| Failures::new(observed, pick, buffering));
    let (inner, middle, outer) = (inner?, middle?, outer?);
    let unseen = clustered_interval(0.0, None, confidence)?.high * exposure / middle.span;
    let sure = inner.count.min(middle.count).min(outer.count) >= 1.0;
    // Longer blackouts can merge two failures.
    let intervals = [
        inner.interval(confidence)?,
        middle.interval(confidence)?,
        outer.interval(confidence)?,
    ];
    let low = intervals
        .iter()
        .map(|interval| interval.low)
        .fold(f64::INFINITY, f64::min);
    let high = intervals
        .iter()
        .map(|interval| interval.high)
        .fold(unseen, f64::max);
    // A job fails at most once.
    let most = 1.0 / buffering.period();
    let rate = Interval::new(
        if sure { low / exposure } else { 0.0 },
        (high / exposure).min(most),
    );
    let dispersion = middle
        .clusters
        .map(|clusters| clusters.dispersion(middle.count));
    Ok(Outlook {
        exposure,
        failures: middle.count,
        // A run that a phase of the replay divides gives more clusters than failures.
        clusters: middle
            .clusters
            .map_or(0.0, |clusters| clusters.count.min(middle.count)),
        misses: middle.misses,
        mean_time: (middle.count >= 1.0).then(|| exposure / middle.count),
        mean_time_interval: rate.inverse(),
        dispersion: dispersion.filter(|&index| index > MAX_INDEPENDENT_DISPERSION),
    })
}

/// Returns the variance of the counts of `what` over windows of the time; `None`
/// without any.
pub(super) fn dispersion(
    observed: &[Observed],
    pick: Pick,
    buffering: Buffering,
    what: impl Fn(&LateJobs) -> &[f64],
) -> Result<Option<Dispersion>, InputError> {
    let longest = observed.iter().map(|cpu| cpu.exposure).fold(0.0, f64::max);
    let mut counts = vec![0.0; WINDOWS];
    for cpu in observed {
        let phase = buffering.period() / 2.0;
        let blackouts = pick(&cpu.blackouts);
        let late = late_jobs(blackouts, cpu.exposure, buffering, phase, cpu.base)?;
        for time in what(&late) {
            let window = crate::sample::index(time / longest * WINDOWS as f64);
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
            .map(|&(start, length)| Blackout::new(start, start + length))
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
    fn mean_time_without_a_miss_is_bounded_by_the_rule_of_three() {
        let result = outlook(&[observed(&[(50.0, 3.0)])], buffering(), 0.95).unwrap();

        assert_eq!((result.mean_time, result.misses), (None, 0.0));
        assert!((result.mean_time_interval.low - 10_000.0 / 2.9957).abs() < 1.0);
        assert_eq!(result.mean_time_interval.high, f64::INFINITY);
    }

    #[test]
    fn hour_without_a_failure_is_one_hour_on_64_cpus() {
        let result = outlook(&vec![observed(&[]); 64], buffering(), 0.95).unwrap();

        assert_eq!(result.exposure, 640_000.0);
        assert!((result.mean_time_interval.low - 10_000.0 / 2.9957).abs() < 1.0);
    }

    #[test]
    fn consecutive_recordings_add_up() {
        let recording = |recording| Observed {
            recording,
            ..observed(&[])
        };
        let both = [recording(0), recording(1)];

        let result = outlook(&both, buffering(), 0.95).unwrap();

        assert!((result.mean_time_interval.low - 20_000.0 / 2.9957).abs() < 1.0);
    }

    #[test]
    fn less_than_one_failure_has_no_estimate_and_no_upper_end() {
        // 0.03 beyond the slack of 10.5: at most one phase in 16 detects it.
        let result = outlook(&[observed(&[(1_000.3, 10.75)])], buffering(), 0.95).unwrap();

        assert!((0.01..1.0).contains(&result.failures), "{result:?}");
        assert_eq!(result.mean_time, None);
        assert_eq!(result.mean_time_interval.high, f64::INFINITY);
        assert!(result.mean_time_interval.low <= 10_000.0 / 2.9957);
    }

    /// Returns stalls of 30 at irregular distances.
    fn stalls(count: u32, apart: f64) -> Vec<(f64, f64)> {
        (0..count)
            .map(|k| {
                let jitter = f64::from(k * 7 % 5) / 10.0 - 0.2;
                (300.0 + apart * (f64::from(k) + jitter), 30.0)
            })
            .collect()
    }

    #[test]
    fn simultaneous_stalls_of_all_cpus_count_as_on_one() {
        let stalls = stalls(20, 480.0);
        let one_cpu = outlook(&[observed(&stalls)], buffering(), 0.95).unwrap();
        let many = outlook(&vec![observed(&stalls); 64], buffering(), 0.95).unwrap();

        assert_eq!((many.failures, many.exposure), (20.0 * 64.0, 640_000.0));
        assert_eq!(many.mean_time, one_cpu.mean_time);
        let (single, many) = (one_cpu.mean_time_interval, many.mean_time_interval);
        assert!(
            many.low < single.low * 1.1 && many.high > single.high * 0.9,
            "{single:?} {many:?}"
        );
    }

    #[test]
    fn permanent_lateness_is_not_one_failure() {
        let result = outlook(&[observed(&[(10.0, 9_980.0)])], buffering(), 0.95).unwrap();

        assert!((result.failures - 16.6).abs() < 0.2, "{result:?}");
        // Nor is it a rare event.
        assert!(result.clusters > 10.0, "{result:?}");
    }

    #[test]
    fn failures_are_at_most_the_jobs() {
        // The interval has one burst, so its rate carries little information.
        let burst = (0..40).map(|k| (50.0 + 18.0 * f64::from(k), 12.0));
        let storm = Observed {
            exposure: 1_000.0,
            ..observed(&burst.collect::<Vec<_>>())
        };

        let result = outlook(&[storm], buffering(), 0.95).unwrap();

        assert!(result.failures > 5.0, "{result:?}");
        assert_eq!(result.mean_time_interval.low, buffering().period());
    }

    #[test]
    fn storm_of_stalls_widens_the_interval() {
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
