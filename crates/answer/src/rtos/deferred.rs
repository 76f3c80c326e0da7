//! Criterion `deferred`: whether a thread of high priority preempts a softirq.

use laggard_model::{Nanos, RtosDeferred};
use schemars::JsonSchema;
use serde::Serialize;

use super::RtosReason;

/// Minimum number of wakeups for a verdict.
const MIN_WAKEUPS: u64 = 30;
/// Share of wakeups with the other outcome that a verdict tolerates: a wakeup may come at the
/// very end of a softirq.
const TOLERATED: f64 = 0.1;

/// Wakeups of a `SCHED_FIFO` 90 thread while a softirq receives packets.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct DeferredFigures {
    /// Number of wakeups during a softirq.
    pub wakeups: u64,
    /// Number of these wakeups where the thread ran before the softirq ended.
    pub preempted: u64,
    /// Longest time from a wakeup to the end of the softirq that the thread waited for.
    pub longest_wait_ns: Nanos,
}

pub(super) const fn figures(deferred: &RtosDeferred) -> DeferredFigures {
    DeferredFigures {
        wakeups: deferred.woken,
        preempted: deferred.preempted,
        longest_wait_ns: deferred.longest_wait,
    }
}

/// Returns the reason for the verdict.
pub(super) fn reason(figures: &DeferredFigures) -> RtosReason {
    let share = figures.preempted as f64 / figures.wakeups.max(1) as f64;
    if figures.wakeups < MIN_WAKEUPS {
        RtosReason::TooFewSamples
    } else if share >= 1.0 - TOLERATED {
        RtosReason::SoftirqPreempted
    } else if share <= TOLERATED {
        RtosReason::SoftirqNotPreempted
    } else {
        RtosReason::SoftirqSometimesPreempted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_follows_the_order_of_wakeup_and_end_of_the_softirq() {
        for (wakeups, preempted, expected) in [
            (29, 29, RtosReason::TooFewSamples),
            (1_000, 0, RtosReason::SoftirqNotPreempted),
            (1_000, 100, RtosReason::SoftirqNotPreempted),
            (1_000, 500, RtosReason::SoftirqSometimesPreempted),
            (1_000, 900, RtosReason::SoftirqPreempted),
        ] {
            let figures = figures(&RtosDeferred {
                woken: wakeups,
                preempted,
                longest_wait: Nanos::from_us(20),
            });

            assert_eq!(reason(&figures), expected, "{figures:?}");
        }
    }
}
