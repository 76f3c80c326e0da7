//! Misses of a thread before it is known whether its period is its deadline: the threads that wake it
//! may not be known yet.

use laggard_model::{Nanos, ThreadPolicy};

use super::counts::AttachCounts;
use super::cycle::ThreadCycle;
use super::line::DueUnknown;
use super::timeline::{PassedCycles, Timeline};

/// Maximum number of misses that are kept for analysis, and of groups of cycles without a wakeup. The
/// others are only counted.
const MAX_MISSES: usize = 256;
/// Number of cycles after which a long cycle is compared with the period although its timer is not
/// known.
const MAX_AGE: u32 = 128;

/// Earlier cycle that missed its deadline.
#[derive(Clone, Debug)]
pub(super) struct MissedEarlier {
    pub(super) cycle: ThreadCycle,
    pub(super) policy: ThreadPolicy,
    pub(super) deadline: Nanos,
}

/// Cycles that are misses if the thread has a deadline.
#[derive(Debug, Default)]
pub(super) struct UndecidedMisses {
    pub(super) missed: Vec<MissedEarlier>,
    /// Cycles without a wakeup, late or not.
    pub(super) passed: Vec<PassedCycles>,
    /// Counts of further cycles without a wakeup.
    pub(super) further: AttachCounts,
    /// Long cycles of timers that are not known yet, with the number of cycles since then.
    of_timers: Vec<(DueUnknown, u32)>,
}

impl UndecidedMisses {
    pub(super) fn miss(&mut self, missed: MissedEarlier) {
        if self.missed.len() < MAX_MISSES {
            self.missed.push(missed);
        }
    }

    /// Keeps a cycle until its timer is known.
    pub(super) fn wait_for_timer(&mut self, cycle: DueUnknown) {
        self.of_timers.push((cycle, 0));
    }

    /// Gives up the search for timers: the measurement has ended.
    pub(super) fn end_timers(&mut self) {
        for (_, age) in &mut self.of_timers {
            *age = MAX_AGE;
        }
    }

    /// Takes the cycles whose timers are known, or that have waited for long.
    pub(super) fn take_of_timers(&mut self, timeline: &Timeline) -> std::vec::IntoIter<DueUnknown> {
        let mut settled = Vec::new();
        for (cycle, age) in std::mem::take(&mut self.of_timers) {
            let is_unknown = timeline.is_of_unknown_timer(cycle.cycle.whole.origin);
            if is_unknown && age < MAX_AGE {
                self.of_timers.push((cycle, age + 1));
            } else {
                settled.push(cycle);
            }
        }
        settled.into_iter()
    }

    pub(super) fn pass(&mut self, mut passed: Vec<PassedCycles>) {
        let room = MAX_MISSES.saturating_sub(self.passed.len());
        let further = passed.split_off(room.min(passed.len()));
        self.passed.extend(passed);
        self.further.pass(&further);
        for joined in further.iter().filter(|cycles| cycles.is_joined) {
            let whole = joined.first().whole;
            if joined.due.first() == Some(&whole.origin) {
                self.further.responses.add(whole.response());
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::attach::timeline::CatchUp;
    use laggard_model::{Cpu, ThreadActivation, ThreadName, Tid, WatchedThread, WokenBy};

    pub(in crate::attach) const POLICY: ThreadPolicy = ThreadPolicy::Other(0);

    /// Returns a cycle of one activation.
    pub(in crate::attach) fn cycle(whole: ThreadActivation) -> ThreadCycle {
        ThreadCycle {
            thread: WatchedThread {
                number: 1,
                tid: Tid(1),
                process: 1,
                name: ThreadName::default(),
                policy: POLICY,
                merged: 0,
                unseen: 0,
                stopped: 0,
            },
            whole,
            parts: Vec::new(),
            before: Vec::new(),
            is_interruption: false,
            is_relative: false,
            timeout_resolution: Nanos::ZERO,
            successor: None,
        }
    }

    #[test]
    fn cycles_without_a_wakeup_that_are_not_kept_are_counted() {
        let ms = Nanos::from_ms;
        let group = |number: u64| {
            let from = number * 100;
            let times = [ms(from), ms(from), ms(from + 35)];
            let whole = ThreadActivation::new(WokenBy::Interrupt, Cpu(0), times);
            PassedCycles {
                cycle: cycle(whole),
                policy: POLICY,
                deadline: ms(10),
                // 25 ms late, 15 ms late, in time.
                due: vec![ms(from + 10), ms(from + 20), ms(from + 30)],
                is_joined: false,
                never_ran: false,
                catch_up: CatchUp::default(),
            }
        };
        let mut undecided = UndecidedMisses::default();

        undecided.pass((0..200).map(group).collect());
        undecided.pass((200..300).map(group).collect());

        let mut counts = AttachCounts::default();
        counts.pass(&undecided.passed);
        counts.merge_passed(&undecided.further);
        assert_eq!(undecided.passed.len(), MAX_MISSES);
        assert_eq!((counts.misses, counts.passed), (600, 600));
        assert_eq!(counts.responses.count(), 900);
        assert_eq!(counts.last_missed, Some(ms(29_920)));
        assert_eq!(counts.missed_at.len(), 600);
    }
}
