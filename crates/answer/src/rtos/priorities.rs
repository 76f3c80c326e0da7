//! Criterion `priorities`: number of thread priorities, and whether each preempts the
//! next lower one.

use std::collections::BTreeMap;

use laggard_model::RtosPriorities;
use schemars::JsonSchema;
use serde::Serialize;

use super::RtosReason;

/// Number of priorities that POSIX requires (IEEE Std 1003.1, `sched_get_priority_min`).
/// The paper found 7 too few.
const MIN_PRIORITIES: usize = 32;

/// Preemption between neighbouring priorities.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct PriorityFigures {
    /// Lowest and highest real-time priority according to the system.
    pub stated: (u8, u8),
    /// Number of these that this process may use.
    pub usable: usize,
    /// Number of neighbouring pairs that were tested.
    pub pairs: usize,
    /// Number of these pairs where the higher priority preempted the lower one in most rounds.
    pub preempting: usize,
    /// First pair without preemption: running priority, woken priority.
    pub not_preempting: Option<(u8, u8)>,
    /// Number of priorities that were tested against an equal one.
    pub equals: usize,
    /// Number of these where the woken thread waited for the running one in most rounds.
    pub waiting: usize,
}

/// Counts the pairs that preempt. A stop of the whole machine can reverse the order of a
/// single round, so the majority of the rounds decides.
pub(super) fn figures(priorities: &RtosPriorities) -> PriorityFigures {
    let mut rounds: BTreeMap<(u8, u8), (usize, usize)> = BTreeMap::new();
    for wakeup in &priorities.wakeups.samples {
        let (total, preempted) = rounds.entry((wakeup.running, wakeup.woken)).or_default();
        *total += 1;
        *preempted += usize::from(wakeup.preempted);
    }
    let mostly = |&(total, preempted): &(usize, usize)| 2 * preempted > total;
    let (equals, pairs): (Vec<_>, Vec<_>) = rounds
        .iter()
        .partition(|((running, woken), _)| running == woken);
    PriorityFigures {
        stated: priorities.stated,
        usable: priorities.usable.len(),
        pairs: pairs.len(),
        preempting: pairs.iter().filter(|(_, rounds)| mostly(rounds)).count(),
        not_preempting: pairs
            .iter()
            .find(|(_, rounds)| !mostly(rounds))
            .map(|(pair, _)| **pair),
        equals: equals.len(),
        waiting: equals.iter().filter(|(_, rounds)| !mostly(rounds)).count(),
    }
}

/// Returns the reason for the verdict.
pub(super) fn reason(figures: &PriorityFigures) -> RtosReason {
    let required = MIN_PRIORITIES;
    let (lowest, highest) = figures.stated;
    if figures.usable < required {
        let stated = usize::from(highest.saturating_sub(lowest)) + 1;
        if stated < required {
            RtosReason::SystemHasTooFewPriorities { required }
        } else {
            RtosReason::UserHasTooFewPriorities { required }
        }
    } else if figures.not_preempting.is_some() {
        RtosReason::LowerNotPreempted
    } else if figures.waiting < figures.equals {
        RtosReason::EqualPreempted
    } else if figures.pairs + 1 < figures.usable {
        RtosReason::PairsMissing
    } else {
        RtosReason::PrioritiesPreempt
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Nanos, RtosWakeup, RtosWakeups};

    use super::*;

    /// Four rounds of each pair of neighbours and of two priorities against an equal one.
    fn priorities(usable: u8, preempts: impl Fn(u8, u8, usize) -> bool) -> RtosPriorities {
        let pairs = (1..usable)
            .map(|low| (low, low + 1))
            .chain([(1, 1), (11, 11)]);
        let samples = pairs.flat_map(|(running, woken)| {
            let preempts = &preempts;
            (0..4).map(move |round| RtosWakeup {
                running,
                woken,
                latency: Nanos::from_us(7),
                preempted: preempts(running, woken, round),
                steal: None,
            })
        });
        RtosPriorities {
            stated: (1, 99),
            usable: (1..=usable).collect(),
            wakeups: RtosWakeups {
                samples: samples.collect(),
                ..RtosWakeups::default()
            },
        }
    }

    fn reason_of(priorities: &RtosPriorities) -> RtosReason {
        reason(&figures(priorities))
    }

    #[test]
    fn priorities_that_preempt_pass_despite_one_stop_of_the_machine() {
        let stopped = |low, high, round| low < high && !(low == 7 && round == 2);

        let figures = figures(&priorities(99, stopped));

        assert_eq!(reason(&figures), RtosReason::PrioritiesPreempt);
        assert_eq!((figures.pairs, figures.equals), (98, 2));
    }

    #[test]
    fn two_priorities_that_are_the_same_fail() {
        let figures = figures(&priorities(99, |low, high, _| low < high && low != 63));

        assert_eq!(reason(&figures), RtosReason::LowerNotPreempted);
        assert_eq!(figures.not_preempting, Some((63, 64)));
        assert_eq!(figures.preempting, 97);
    }

    /// Such a system gives each thread a turn, whatever its priority.
    #[test]
    fn preemption_of_an_equal_fails() {
        let figures = figures(&priorities(99, |_, _, _| true));

        assert_eq!(reason(&figures), RtosReason::EqualPreempted);
        assert_eq!(figures.waiting, 0);
    }

    #[test]
    fn few_priorities_fail_a_system_and_only_limit_a_user() {
        let mut few = priorities(7, |low, high, _| low < high);
        let required = MIN_PRIORITIES;
        assert_eq!(
            reason_of(&few),
            RtosReason::UserHasTooFewPriorities { required }
        );

        few.stated = (16, 22);
        assert_eq!(
            reason_of(&few),
            RtosReason::SystemHasTooFewPriorities { required }
        );
    }

    #[test]
    fn a_test_that_ended_early_is_unknown() {
        let mut cut = priorities(99, |low, high, _| low < high);
        cut.wakeups.samples.truncate(200);

        assert_eq!(reason_of(&cut), RtosReason::PairsMissing);
    }
}
