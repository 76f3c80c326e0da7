//! How often a stream of jobs fails, where the times of stalls are not known:
//! the probe is too coarse to see them, or did not keep them.
//!
//! Stalls of length S come at a rate r, one at a time. An open-loop probe finds
//! one of them with more than x to come with the probability r E (S - x)+,
//! however seldom it looks, and so does a job (docs/method.md 1.2). So a stall longer
//! than s, of which half of s or more is to come in half of it or more, has a
//! rate of 2 P(more than s / 2 to come) / s at most (the bound of Markov on the
//! residual). Where it is known which activations met the same stall, stalls can
//! be counted too: the half of one is hit with three quarters of its share of
//! the probe's period or more, if each period has one expiry at random. A stall
//! makes a job late that it finds at work, or that finds more than s of it to
//! come (docs/method.md 6.6, closed form).

use super::failures::{Failures, LONG_RUN};
use super::{Buffering, Observed};
use crate::counts::{clustered_interval, dispersion_index, rate_interval};
use crate::input::{at_least, positive};
use crate::{InputError, Interval};

/// Windows in which late activations are counted to see whether they come in
/// bursts.
const WINDOWS: usize = 20;

/// How many times more than Poisson's counts are taken to vary, where it is not
/// known when what is counted came.
const ASSUMED: f64 = 4.0;

/// The chance that an interval is hit, over its share of the period, at least:
/// with one expiry at random in each period, it can lie half in one, half in
/// the next.
const HIT: f64 = 0.75;

/// What was counted of a service's latencies, all CPUs together.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// Activations.
    pub samples: f64,
    /// Of these, later than the slack.
    pub beyond: f64,
    /// Of these, later than halfway from the ordinary latency to the slack.
    pub halfway: f64,
    /// The largest latency.
    pub largest: f64,
    /// When the stalls began that made them later than halfway, as a share of
    /// the observation; `None` where not all are known.
    pub stalls: Option<Vec<f64>>,
    /// Where stalls were not kept: how many activations there were that a
    /// stall worth replaying made late.
    pub hidden: Option<f64>,
}

/// What is known of failures in the time observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// How long was observed, all CPUs together.
    pub exposure: f64,
    /// How many failures there were, as an interval of what was observed.
    pub failures: Interval,
    /// How many jobs found a latency beyond the slack, by the share of
    /// activations that did.
    pub late: f64,
}

/// Bounds on failures of `buffering` from what was `sampled`, and from the
/// blackouts in `observed` that are known, which are never too long.
///
/// A late activation shows a stall from its expiry, or from when the service last
/// ran, until it was served. A job that is due in it, and finds more than its slack
/// to come, is late whatever the probe does; one is due then in every phase if that
/// part is a whole buffer long, else as often as it is a share of one.
///
/// Where stalls were not kept, each late activation may have been a failure.
/// Where the probe is too coarse, the limits are those of rates from samples;
/// stalls that are each shorter than the slack and meet in one job are in them
/// only as far as they were seen.
///
/// # Errors
/// When there is nothing observed or a number is out of its range.
pub fn failure_bounds(
    observed: &[Observed],
    sampled: &Sampled,
    buffering: Buffering,
    confidence: f64,
) -> Result<Bounds, InputError> {
    at_least("observed CPUs", observed, 1)?;
    let exposure = positive("exposure", observed.iter().map(|one| one.exposure).sum())?;
    positive("samples", sampled.samples)?;
    let base = observed.iter().map(|one| one.base).fold(0.0, f64::max);
    let seen = Failures::of(observed, |all| &all.inner, buffering)?;
    // What stops all CPUs at once counts once.
    let at_once = exposure / seen.span;
    let bursts = at_once
        * match &sampled.stalls {
            Some(stalls) => bursts(stalls)?,
            None => ASSUMED,
        };
    // Two limits of shares are used at a time.
    let limits = |count: f64, of: f64, together: f64| -> Result<Interval, InputError> {
        let confidence = 0.5 + confidence / 2.0;
        let found = rate_interval(count / together, of / together, confidence)?;
        // Less than one of what comes together shows that there is a rate, not which.
        let is_one = count >= together;
        let low = if is_one { found.low } else { 0.0 };
        Ok(Interval { low, ..found })
    };
    // Of one stall as many activations tell as expired in it.
    let apart = exposure / sampled.samples;
    let each = ((sampled.largest - base) / apart + 1.0).max(1.0);
    let share = |count: f64| limits(count, sampled.samples, each * bursts);
    let known = limits(seen.count, exposure, bursts)?;
    // A stall that was seen fails for certain, however coarsely it was looked for:
    // as of what is replayed, so many came, in so many clusters.
    let sure = if seen.count >= 1.0 {
        clustered_interval(seen.count, seen.clusters, confidence)?.low
    } else {
        0.0
    };
    let (beyond, halfway) = (share(sampled.beyond)?, share(sampled.halfway)?);
    let jobs = exposure / buffering.period();
    let low = jobs * beyond.low / longest_run(sampled, buffering, base);
    let high = match sampled.hidden {
        Some(count) => {
            let long = 2.0 * apart / (idle(buffering, base) * LONG_RUN);
            limits(count, exposure, bursts)?.high * exposure * long.max(1.0)
        }
        None => {
            let slack = buffering.slack() - base;
            let sampled_rate = 2.0 * halfway.high / slack;
            let counted_rate = match &sampled.stalls {
                Some(stalls) => {
                    let hit = HIT * (slack / 2.0 / apart).min(1.0);
                    limits(stalls.len() as f64, exposure, bursts)?.high / hit
                }
                None => f64::INFINITY,
            };
            let rate = sampled_rate.min(counted_rate);
            jobs * most_by_job(beyond.high, rate, buffering, base)
        }
    };
    let low = low.max(sure);
    Ok(Bounds {
        exposure,
        failures: Interval {
            low,
            high: high.max(known.high * exposure).max(low).min(jobs.max(low)),
        },
        late: jobs * sampled.beyond / sampled.samples,
    })
}

/// What a job leaves of its period.
fn idle(buffering: Buffering, base: f64) -> f64 {
    let left = buffering.period() - buffering.compute() - base;
    left.max(1e-3 * buffering.period())
}

/// Failures for each job at most, from the share of activations that find more
/// than the slack to come, and the rate of stalls longer than it.
fn most_by_job(beyond: f64, rate: f64, buffering: Buffering, base: f64) -> f64 {
    if buffering.slack() <= base {
        return 1.0;
    }
    let stalls = rate * buffering.period();
    let work = buffering.compute() + base;
    // A stall is one failure, if it does not last for a hundred jobs.
    let failures = stalls.min(work * rate + beyond);
    let late = beyond * buffering.period() / idle(buffering, base) + stalls;
    failures.max(late / LONG_RUN)
}

/// How many jobs in a row the largest stall makes late, at most.
fn longest_run(sampled: &Sampled, buffering: Buffering, base: f64) -> f64 {
    let left = idle(buffering, base) - buffering.period() * sampled.halfway / sampled.samples;
    if left <= 0.0 {
        return LONG_RUN;
    }
    let run = (sampled.largest - buffering.slack()) / left + 1.0;
    run.clamp(1.0, LONG_RUN)
}

/// How much more than Poisson's the counts of what came at `times` vary, where
/// that is noticed; else 1.
fn bursts(times: &[f64]) -> Result<f64, InputError> {
    if times.is_empty() {
        return Ok(1.0);
    }
    let mut counts = [0.0; WINDOWS];
    for time in times {
        let window = crate::sample::index(time.max(0.0) * WINDOWS as f64);
        counts[window.min(WINDOWS - 1)] += 1.0;
    }
    let found = dispersion_index(&counts)?;
    Ok(if found.p < 0.01 {
        found.index.max(1.0)
    } else {
        1.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceedance::StreamBlackouts;

    fn nothing() -> Observed {
        Observed {
            recording: 0,
            blackouts: StreamBlackouts::default(),
            exposure: 60e9,
            base: 19e3,
        }
    }

    fn sampled(beyond: f64, halfway: f64) -> Sampled {
        Sampled {
            samples: 60_000.0,
            beyond,
            halfway,
            largest: 19e3,
            stalls: Some(Vec::new()),
            hidden: None,
        }
    }

    fn bounds(sampled: &Sampled, buffering: Buffering) -> Bounds {
        failure_bounds(&[nothing()], sampled, buffering, 0.95).unwrap()
    }

    #[test]
    fn where_no_activation_was_late_there_may_have_been_none_or_as_many_as_samples_miss() {
        let short = Buffering::new(2, 100e3, 20e3).unwrap();
        let long = Buffering::new(2, 1333e3, 400e3).unwrap();

        let (short, long) = (
            bounds(&sampled(0.0, 0.0), short),
            bounds(&sampled(0.0, 0.0), long),
        );

        assert_eq!((short.failures.low, short.late), (0.0, 0.0));
        assert!((50.0..150.0).contains(&short.failures.high), "{short:?}");
        assert!((3.0..8.0).contains(&long.failures.high), "{long:?}");
    }

    #[test]
    fn a_share_beyond_the_slack_shows_failures() {
        let buffering = Buffering::new(2, 1333e3, 400e3).unwrap();
        let late = Sampled {
            largest: 2e6,
            stalls: None,
            ..sampled(600.0, 900.0)
        };

        let found = bounds(&late, buffering);

        // 1 % of 45,000 jobs, of which one stall takes 3 at most.
        assert!((found.late - 450.0).abs() < 1.0, "{found:?}");
        assert!((80.0..200.0).contains(&found.failures.low), "{found:?}");
        assert!(found.failures.high > 450.0, "{found:?}");
    }

    #[test]
    fn an_hour_on_many_cpus_is_no_longer_than_on_one() {
        let buffering = Buffering::new(2, 1333e3, 400e3).unwrap();
        let cpus = vec![nothing(); 64];
        let sampled = Sampled {
            samples: 64.0 * 60_000.0,
            ..sampled(0.0, 0.0)
        };

        let found = failure_bounds(&cpus, &sampled, buffering, 0.95).unwrap();

        // The rule of three, on one CPU.
        assert!(found.exposure / found.failures.high <= 60e9 / 2.9957);
    }

    #[test]
    fn what_comes_in_bursts_tells_less() {
        let buffering = Buffering::new(2, 1333e3, 400e3).unwrap();
        let times = |each: &dyn Fn(f64) -> f64| -> Vec<f64> {
            (0..100).map(|at| each(f64::from(at) / 100.0)).collect()
        };
        let at = |times: Vec<f64>| {
            let late = Sampled {
                stalls: Some(times),
                ..sampled(50.0, 100.0)
            };
            bounds(&late, buffering).failures
        };

        let steady = at(times(&|at| at));
        let burst = at(times(&|at| 0.5 + at / 50.0));

        assert!(burst.low < steady.low && steady.high < burst.high);
    }

    #[test]
    fn where_stalls_were_not_kept_each_may_have_been_a_failure() {
        let buffering = Buffering::new(3, 6e6, 1.5e6).unwrap();
        let late = Sampled {
            hidden: Some(40.0),
            largest: 8e6,
            ..sampled(0.0, 10.0)
        };

        let found = bounds(&late, buffering).failures;

        assert_eq!(found.low, 0.0);
        assert!(found.high > 40.0, "{found:?}");
    }
}
