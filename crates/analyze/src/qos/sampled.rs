//! Failure rate of a stream of jobs without known times of stalls, because the probe is
//! too coarse or did not store them.
//!
//! Stalls of length S come at a rate r without overlap. An open-loop probe finds one
//! with more than x remaining with probability r E (S - x)+, for any probe rate, and so
//! does a job (docs/method.md 1.2). A stall longer than s has a remainder of s / 2 or
//! more for at least half of its length, so its rate is at most 2 P(remainder > s / 2)
//! / s (the bound of Markov on the residual). If it is known which activations met the
//! same stall, stalls can be counted too: half of a stall is hit with at least three
//! quarters of its fraction of the probe's period, if each period has one expiry at
//! random. A stall makes a job late if it starts during the job, or if more than s of
//! it remains when the job is due (docs/method.md 6.6, closed form).

use super::failures::{Failures, LONG_RUN};
use super::{Buffering, Observed};
use crate::counts::{dispersion_index, rate_interval};
use crate::input::{at_least, positive};
use crate::{InputError, Interval};

/// Number of windows for counting late wakeups, which detects bursts.
const WINDOWS: usize = 20;

/// Assumed variance relative to Poisson, if the times of the counted events are
/// unknown.
const ASSUMED_DISPERSION: f64 = 4.0;

/// Minimum probability that an interval is hit, divided by its fraction of the period:
/// with one random expiry per period, half of it can lie in one period and half in the
/// next.
const MIN_HIT_RATIO: f64 = 0.75;

/// Counts of a service's latencies over all CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// Number of activations.
    pub samples: f64,
    /// Number of activations later than the slack.
    pub beyond: f64,
    /// Number of activations later than halfway from the ordinary latency to the slack.
    pub halfway: f64,
    /// Largest latency.
    pub largest: f64,
    /// Starts of the stalls that caused the `halfway` latencies, as a fraction of the
    /// observation; `None` if not all are known.
    pub stalls: Option<Vec<f64>>,
    /// If stalls were not stored, the number of activations that a relevant stall made
    /// late.
    pub hidden: Option<f64>,
}

/// Bounds on the failures in the observed time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Observed time, summed over all CPUs.
    pub exposure: f64,
    /// Number of failures, as an interval of the observation.
    pub failures: Interval,
    /// Number of jobs with a latency beyond the slack, from the fraction of activations beyond it.
    pub late: f64,
}

/// Computes bounds on failures of `buffering` from the counts in `sampled` and from the
/// known blackouts in `observed`, which are never too long.
///
/// A late wakeup shows a stall from its expiry, or from the last run of the
/// service, until it was served. A job that is due in it with more than its slack
/// remaining is late, independent of the probe. If the part of the stall with more than the slack
/// remaining has the length of a whole buffer, a late job exists in every phase. Otherwise it
/// exists in a corresponding fraction of phases.
///
/// If stalls were not stored, each late wakeup may have been a failure. If the
/// probe is too coarse, the limits come from the rates of samples. Several stalls in one job, each
/// shorter than the slack, are included only if they were observed.
///
/// # Errors
/// If nothing was observed or a number is out of its range.
pub fn failure_bounds(
    observed: &[Observed],
    sampled: &Sampled,
    buffering: Buffering,
    confidence: f64,
) -> Result<Bounds, InputError> {
    at_least("observed CPUs", observed, 1)?;
    let exposure = positive("exposure", observed.iter().map(|cpu| cpu.exposure).sum())?;
    positive("samples", sampled.samples)?;
    let base = observed.iter().map(|cpu| cpu.base).fold(0.0, f64::max);
    let replayed = Failures::new(observed, |blackouts| &blackouts.inner, buffering)?;
    // A simultaneous stop of all CPUs counts once.
    let at_once = exposure / replayed.span;
    let bursts = at_once
        * match &sampled.stalls {
            Some(stalls) => bursts(stalls)?,
            None => ASSUMED_DISPERSION,
        };
    // Two limits of fractions are used at a time.
    let limits = |count: f64, total: f64, together: f64| -> Result<Interval, InputError> {
        let confidence = 0.5 + confidence / 2.0;
        let rate = rate_interval(count / together, total / together, confidence)?;
        // A count below one cluster shows that a rate exists, not its value.
        let is_one = count >= together;
        let low = if is_one { rate.low } else { 0.0 };
        Ok(Interval { low, ..rate })
    };
    // The number of activations that report one stall is the number that expired in it.
    let apart = exposure / sampled.samples;
    let each = ((sampled.largest - base) / apart + 1.0).max(1.0);
    let share = |count: f64| limits(count, sampled.samples, each * bursts);
    let observed_limits = limits(replayed.count, exposure, bursts)?;
    // An observed stall certainly fails, even with coarse probing: the count and
    // clusters of the replay are a lower bound.
    let sure = if replayed.count >= 1.0 {
        replayed.interval(confidence)?.low
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
                    let hit = MIN_HIT_RATIO * (slack / 2.0 / apart).min(1.0);
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
        failures: Interval::new(
            low,
            high.max(observed_limits.high * exposure)
                .max(low)
                .min(jobs.max(low)),
        ),
        late: jobs * sampled.beyond / sampled.samples,
    })
}

/// Returns the idle part of a job's period.
fn idle(buffering: Buffering, base: f64) -> f64 {
    let left = buffering.period() - buffering.compute() - base;
    left.max(1e-3 * buffering.period())
}

/// Returns the maximum number of failures per job, from the fraction of activations
/// with more than the slack remaining, and the rate of longer stalls.
fn most_by_job(beyond: f64, rate: f64, buffering: Buffering, base: f64) -> f64 {
    if buffering.slack() <= base {
        return 1.0;
    }
    let stalls = rate * buffering.period();
    let work = buffering.compute() + base;
    // A stall is one failure unless it lasts for a hundred jobs.
    let failures = stalls.min(work * rate + beyond);
    let late = beyond * buffering.period() / idle(buffering, base) + stalls;
    failures.max(late / LONG_RUN)
}

/// Returns the maximum number of consecutive jobs that the largest stall makes late.
fn longest_run(sampled: &Sampled, buffering: Buffering, base: f64) -> f64 {
    let left = idle(buffering, base) - buffering.period() * sampled.halfway / sampled.samples;
    if left <= 0.0 {
        return LONG_RUN;
    }
    let run = (sampled.largest - buffering.slack()) / left + 1.0;
    run.clamp(1.0, LONG_RUN)
}

/// Returns the variance of the counts at `times` relative to Poisson if it is
/// significant, otherwise 1.
fn bursts(times: &[f64]) -> Result<f64, InputError> {
    if times.is_empty() {
        return Ok(1.0);
    }
    let mut counts = [0.0; WINDOWS];
    for time in times {
        let window = crate::sample::index(time.max(0.0) * WINDOWS as f64);
        counts[window.min(WINDOWS - 1)] += 1.0;
    }
    let dispersion = dispersion_index(&counts)?;
    Ok(if dispersion.p < 0.01 {
        dispersion.index.max(1.0)
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
    fn bounds_without_late_activations_reach_from_zero_to_the_missed() {
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
    fn fraction_beyond_the_slack_shows_failures() {
        let buffering = Buffering::new(2, 1333e3, 400e3).unwrap();
        let late = Sampled {
            largest: 2e6,
            stalls: None,
            ..sampled(600.0, 900.0)
        };

        let result = bounds(&late, buffering);

        // 1 % of 45,000 jobs. A stall takes at most 3 of them.
        assert!((result.late - 450.0).abs() < 1.0, "{result:?}");
        assert!((80.0..200.0).contains(&result.failures.low), "{result:?}");
        assert!(result.failures.high > 450.0, "{result:?}");
    }

    #[test]
    fn hour_on_many_cpus_is_no_longer_than_on_one() {
        let buffering = Buffering::new(2, 1333e3, 400e3).unwrap();
        let cpus = vec![nothing(); 64];
        let sampled = Sampled {
            samples: 64.0 * 60_000.0,
            ..sampled(0.0, 0.0)
        };

        let result = failure_bounds(&cpus, &sampled, buffering, 0.95).unwrap();

        // The rule of three, on one CPU.
        assert!(result.exposure / result.failures.high <= 60e9 / 2.9957);
    }

    #[test]
    fn bursts_carry_less_information() {
        let buffering = Buffering::new(2, 1333e3, 400e3).unwrap();
        let times = |each: &dyn Fn(f64) -> f64| -> Vec<f64> {
            (0..100).map(|time| each(f64::from(time) / 100.0)).collect()
        };
        let sampled_at = |times: Vec<f64>| {
            let late = Sampled {
                stalls: Some(times),
                ..sampled(50.0, 100.0)
            };
            bounds(&late, buffering).failures
        };

        let steady = sampled_at(times(&|sampled_at| sampled_at));
        let burst = sampled_at(times(&|sampled_at| 0.5 + sampled_at / 50.0));

        assert!(burst.low < steady.low && steady.high < burst.high);
    }

    #[test]
    fn activation_may_be_a_failure_if_stalls_were_not_kept() {
        let buffering = Buffering::new(3, 6e6, 1.5e6).unwrap();
        let late = Sampled {
            hidden: Some(40.0),
            largest: 8e6,
            ..sampled(0.0, 10.0)
        };

        let failures = bounds(&late, buffering).failures;

        assert_eq!(failures.low, 0.0);
        assert!(failures.high > 40.0, "{failures:?}");
    }
}
