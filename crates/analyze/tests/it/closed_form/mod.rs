//! Failures by isolated stalls in closed form (docs/method.md 6.6).

use laggard_analyze::qos::Buffering;

/// Number of phases of a stall over which late buffers are averaged.
const PHASES: u32 = 64;

/// Failure rates by isolated stalls, per ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StallFailures {
    /// Episodes: stalls that make at least one job miss.
    pub(crate) episode_rate: f64,
    /// Jobs that miss.
    pub(crate) miss_rate: f64,
}

/// Returns the failures of `buffering` by stalls at a `rate` per ns with these
/// `lengths`, far enough apart that each starts without a backlog.
///
/// A stall that starts while the job computes delays it by its whole length. A stall in
/// the idle part of the cycle delays the next job by its remainder. Each job after a
/// late one gains period - compute.
pub(crate) fn failures_of_isolated_stalls(
    rate: f64,
    lengths: &[f64],
    buffering: Buffering,
) -> StallFailures {
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
    StallFailures {
        episode_rate: per_stall * episodes,
        miss_rate: per_stall * misses,
    }
}
