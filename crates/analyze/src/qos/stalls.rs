//! Failures by isolated stalls in closed form (docs/method.md 6.6).

use super::Buffering;
use crate::InputError;
use crate::input::{all_positive, at_least, positive};

/// Points of the phase of a stall over which late buffers are averaged.
const PHASES: u32 = 64;

/// How often isolated stalls make a stream fail, per unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StallFailures {
    /// Episodes: stalls that make at least one job miss.
    pub episode_rate: f64,
    /// Jobs that miss.
    pub miss_rate: f64,
}

/// Failures of `buffering` by stalls that come `rate` times per unit of time
/// with these `lengths`, far enough apart that each finds no backlog.
///
/// A stall that begins while the job computes delays it whole; one that begins
/// in the idle part of the cycle delays the next job by what is left of it.
/// Each job after a late one gains period - compute.
///
/// # Errors
/// When there is no length or a number is not positive.
pub fn failures_of_isolated_stalls(
    rate: f64,
    lengths: &[f64],
    buffering: Buffering,
) -> Result<StallFailures, InputError> {
    positive("stall rate", rate)?;
    at_least("stall lengths", lengths, 1)?;
    all_positive("stall length", lengths)?;
    let (slack, busy) = (buffering.slack(), buffering.compute() / buffering.period());
    let idle = buffering.period() - buffering.compute();
    let late_buffers = |stall: f64| {
        if stall > slack {
            ((stall - slack) / idle).floor() + 1.0
        } else {
            0.0
        }
    };
    let (mut episodes, mut misses) = (0.0, 0.0);
    for &length in lengths {
        let excess = (length - slack).max(0.0);
        let computing = if length > slack { busy } else { 0.0 };
        episodes += computing + excess.min(idle) / buffering.period();
        let from_idle: f64 = (0..PHASES)
            .map(|phase| (f64::from(phase) + 0.5) / f64::from(PHASES) * idle)
            .map(|elapsed| late_buffers(length - elapsed))
            .sum();
        misses += busy * late_buffers(length) + (1.0 - busy) * from_idle / f64::from(PHASES);
    }
    let per_stall = rate / lengths.len() as f64;
    Ok(StallFailures {
        episode_rate: per_stall * episodes,
        miss_rate: per_stall * misses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_shorter_than_the_slack_do_no_harm() {
        let buffering = Buffering::new(3, 6.0, 1.5).unwrap();

        let failures = failures_of_isolated_stalls(1.0, &[10.0, 5.0], buffering).unwrap();

        assert_eq!((failures.episode_rate, failures.miss_rate), (0.0, 0.0));
    }

    #[test]
    fn a_longer_stall_fails_more_often() {
        let buffering = Buffering::new(2, 12.0, 3.0).unwrap();
        let rate = |length| {
            failures_of_isolated_stalls(1.0, &[length], buffering)
                .unwrap()
                .episode_rate
        };

        assert!(rate(10.0) < rate(12.0) && rate(12.0) < rate(15.0));
    }
}
