//! Criterion `order`: whether waiting threads are woken in the order of their priorities.

use laggard_model::{Absence, QueueWake, QueueWakes, WaitQueue};
use schemars::JsonSchema;
use serde::Serialize;

use super::RtosReason;

/// Minimum number of rounds for a verdict if all wakeups are in order.
const MIN_ROUNDS: u64 = 100;

/// Wakeups from one queue.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct QueueFigures {
    /// The mechanism.
    pub queue: WaitQueue,
    /// Number of rounds, each with eight waiting threads.
    pub rounds: u64,
    /// Number of wakeups.
    pub wakes: usize,
    /// Number of wakeups of a thread while one of higher priority waited.
    pub out_of_order: usize,
    /// First of these: woken priority, highest waiting priority.
    pub example: Option<(u8, u8)>,
    /// Reason why the test did not run, or did not complete.
    pub absence: Option<Absence>,
}

impl QueueFigures {
    /// Returns whether the test ran completely.
    pub const fn is_complete(&self) -> bool {
        self.absence.is_none() && self.rounds >= MIN_ROUNDS
    }
}

/// Counts the wakeups that are out of order.
pub(super) fn figures(wakes: &QueueWakes) -> QueueFigures {
    let is_wrong = |wake: &&QueueWake| wake.woken < wake.highest;
    let first = wakes.wakes.iter().find(is_wrong);
    QueueFigures {
        queue: wakes.queue,
        rounds: wakes.rounds,
        wakes: wakes.wakes.len(),
        out_of_order: wakes.wakes.iter().filter(is_wrong).count(),
        example: first.map(|wake| (wake.woken, wake.highest)),
        absence: wakes.absence.clone(),
    }
}

/// Returns the reason for the verdict.
pub(super) fn reason(queues: &[QueueFigures]) -> RtosReason {
    if queues.iter().any(|queue| queue.out_of_order > 0) {
        RtosReason::WokenOutOfOrder
    } else if queues.iter().all(|queue| queue.absence.is_some()) {
        RtosReason::NotRun
    } else if queues.iter().all(QueueFigures::is_complete) {
        RtosReason::WokenByPriority
    } else {
        RtosReason::QueuesMissing
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::Lacks;

    use super::*;

    fn wakes(queue: WaitQueue, rounds: u64, wrong: u64) -> QueueWakes {
        let wakes = (0..8 * rounds).map(|number| QueueWake {
            woken: if number < wrong { 43 } else { 49 },
            highest: 49,
        });
        QueueWakes {
            queue,
            absence: None,
            rounds,
            wakes: wakes.collect(),
        }
    }

    fn refused(queue: WaitQueue) -> QueueWakes {
        QueueWakes {
            absence: Some(Absence::new("refused", "run as root", Lacks::Rights)),
            ..wakes(queue, 0, 0)
        }
    }

    fn reason_of(wakes: &[QueueWakes]) -> RtosReason {
        reason(&wakes.iter().map(figures).collect::<Vec<_>>())
    }

    #[test]
    fn queues_pass_if_each_wakeup_is_of_the_highest_priority() {
        let queues = WaitQueue::ALL.map(|queue| wakes(queue, 1_000, 0));

        assert_eq!(reason_of(&queues), RtosReason::WokenByPriority);
    }

    #[test]
    fn a_single_wakeup_out_of_order_fails() {
        let condition = wakes(WaitQueue::Condition, 1_000, 1);
        let queues = [wakes(WaitQueue::Futex, 1_000, 0), condition.clone()];

        assert_eq!(reason_of(&queues), RtosReason::WokenOutOfOrder);
        let figures = figures(&condition);
        assert_eq!((figures.out_of_order, figures.wakes), (1, 8_000));
        assert_eq!(figures.example, Some((43, 49)));
    }

    #[test]
    fn queues_that_did_not_run_are_unknown() {
        let none = WaitQueue::ALL.map(refused);
        let queues = [
            wakes(WaitQueue::Futex, 1_000, 0),
            refused(WaitQueue::MessageQueue),
        ];

        assert_eq!(reason_of(&none), RtosReason::NotRun);
        assert_eq!(reason_of(&queues), RtosReason::QueuesMissing);
        let few = [wakes(WaitQueue::Futex, 99, 0)];
        assert_eq!(reason_of(&few), RtosReason::QueuesMissing);
    }
}
