//! Cycles without a wakeup, and whether they count: a program that starts a new timeline after a
//! late cycle skips them.

use laggard_model::{Nanos, ThreadPolicy};

use super::catch_up::MIN_RATIO;
use super::{CatchUp, Timeline};
use crate::attach::cycle::ThreadCycle;

/// Maximum number of cycles that wait until it is known whether the program keeps its
/// timeline.
const MAX_AMBIGUOUS: usize = 64;

/// Cycles without a wakeup: they were due while another cycle of the thread went on.
#[derive(Clone, Debug)]
pub(in crate::attach) struct PassedCycles {
    /// Cycle that went on.
    pub(in crate::attach) cycle: ThreadCycle,
    pub(in crate::attach) policy: ThreadPolicy,
    pub(in crate::attach) deadline: Nanos,
    /// Due times, in order; at least one.
    pub(in crate::attach) due: Vec<Nanos>,
    /// Whether `cycle` was first counted as two cycles, because the thread slept within it by the
    /// same call as between cycles.
    pub(in crate::attach) is_joined: bool,
    /// Whether they were never executed: the program skips due times that have passed.
    pub(in crate::attach) never_ran: bool,
    /// Ends of the cycles: `cycle` ends with the last of them.
    pub(in crate::attach) catch_up: CatchUp,
}

impl PassedCycles {
    /// Time when the cycle ended that was due at `due`.
    pub(in crate::attach) fn end(&self, due: Nanos) -> Nanos {
        self.catch_up.end(due, self.cycle.whole.done)
    }

    /// End of the cycle that was due at `due`, for a recording. A skipped cycle never ends: its recorded end
    /// is 1 ns after its deadline.
    pub(in crate::attach) fn recorded_end(&self, due: Nanos) -> Nanos {
        let missed = due + self.deadline + Nanos::from_ns(1);
        let earliest = if self.is_late(due) { missed } else { due };
        self.end(due).max(earliest)
    }

    /// Returns whether the cycle that was due at `due` missed the deadline.
    pub(in crate::attach) fn is_late(&self, due: Nanos) -> bool {
        let is_skipped = self.never_ran && due > self.cycle.whole.origin;
        is_skipped || self.end(due) > due + self.deadline
    }

    pub(super) fn has_late(&self) -> bool {
        self.due.iter().any(|&due| self.is_late(due))
    }

    /// Returns the first cycle only, without the cycles that the thread caught up with after it.
    pub(in crate::attach) fn first(&self) -> ThreadCycle {
        self.cycle.until(self.end(self.cycle.whole.origin))
    }
}

impl Timeline {
    /// Returns the due times without a wakeup before a wakeup on the grid. The due time of the wakeup is not one
    /// of them: its cycle was delayed, not skipped.
    pub(super) fn skipped(&mut self, origin: Nanos, tolerance: f64) -> Vec<PassedCycles> {
        let tolerance = Nanos::from_f64(tolerance);
        let mut skipped = Vec::new();
        for mut late in std::mem::take(&mut self.waiting) {
            let mut before = std::mem::take(&mut late.due);
            late.due = before.split_off(before.partition_point(|&due| due + tolerance < origin));
            late.due.retain(|&due| due > origin + tolerance);
            if late.due.is_empty() {
                late.due = before;
                skipped.extend((!late.due.is_empty()).then_some(late));
                continue;
            }
            if !before.is_empty() {
                skipped.push(PassedCycles {
                    due: before,
                    ..late.clone()
                });
            }
            self.waiting.push(late);
        }
        skipped
    }

    /// Notes the length of a sleep after a late cycle that can be the first one of a new timeline. These
    /// sleeps have the same length in a program that starts a new timeline, rounded or not.
    pub(super) fn note_late_sleep(&mut self, slept: f64, resolution: Nanos) {
        let first = *self.late_sleep.get_or_insert(slept);
        let is_other = (slept - first).abs() > resolution.as_f64() / 2.0;
        self.late_sleeps_vary |= resolution > Nanos::ZERO && is_other;
    }

    /// Counts skipped cycles if the program keeps its timeline. `is_restart`: the wakeup can also
    /// be the first one of a new timeline.
    pub(super) fn decide(
        &mut self,
        skipped: Vec<PassedCycles>,
        is_restart: bool,
        passed: &mut Vec<PassedCycles>,
    ) {
        let (skipped, in_time): (Vec<_>, Vec<_>) =
            skipped.into_iter().partition(PassedCycles::has_late);
        self.decide_in_time(in_time, is_restart, passed);
        if skipped.is_empty() {
            return;
        }
        if is_restart && self.kept == self.restarted && self.ambiguous.len() < MAX_AMBIGUOUS {
            self.ambiguous.extend(skipped);
            return;
        }
        if !is_restart {
            self.kept += 1;
        }
        // After a relative sleep, the first wakeup may be at an old due time by chance.
        let is_relative = skipped.iter().any(|cycles| cycles.cycle.is_relative);
        if is_relative && self.kept == 1 && self.ambiguous.len() < MAX_AMBIGUOUS {
            self.ambiguous.extend(skipped);
            return;
        }
        if self.kept > self.restarted {
            let ambiguous = std::mem::take(&mut self.ambiguous);
            self.pass(ambiguous, passed);
        }
        if !is_restart || self.kept > self.restarted {
            self.pass(skipped, passed);
        }
    }

    /// Counts cycles without a wakeup. Those that ended in time wait while it is not known whether the
    /// program skips due times.
    pub(super) fn pass(&mut self, late: Vec<PassedCycles>, passed: &mut Vec<PassedCycles>) {
        if self.is_echo {
            return;
        }
        for mut cycles in late {
            let may_be_skipped =
                |due: &Nanos| *due > cycles.cycle.whole.origin && !cycles.is_late(*due);
            let (in_time, due) = cycles.due.iter().partition(|due| may_be_skipped(due));
            if !cycles.is_joined {
                cycles.due = due;
                let unskipped = PassedCycles {
                    due: in_time,
                    ..cycles.clone()
                };
                self.unskipped
                    .extend((!unskipped.due.is_empty()).then_some(unskipped));
            }
            if !cycles.due.is_empty() {
                self.regular.pass(&cycles);
                passed.push(cycles);
            }
        }
        self.release_unskipped(MAX_AMBIGUOUS, MIN_RATIO, passed);
    }

    /// Counts the oldest cycles that wait beyond `limit`, or all if the program skips them (see
    /// [`super::catch_up::MIN_RATIO`]).
    pub(super) fn release_unskipped(
        &mut self,
        limit: usize,
        min_ratio: f64,
        passed: &mut Vec<PassedCycles>,
    ) {
        let never_ran = self.works.skips(min_ratio);
        let limit = if never_ran { 0 } else { limit };
        let released = self.unskipped.len().saturating_sub(limit);
        for cycles in self.unskipped.drain(..released) {
            let catch_up = if never_ran {
                CatchUp::default()
            } else {
                cycles.catch_up
            };
            let cycles = PassedCycles {
                never_ran,
                catch_up,
                ..cycles
            };
            self.regular.pass(&cycles);
            passed.push(cycles);
        }
    }

    /// Counts cycles that ended in time. They do not show what the program does after a late cycle.
    fn decide_in_time(
        &mut self,
        in_time: Vec<PassedCycles>,
        is_restart: bool,
        passed: &mut Vec<PassedCycles>,
    ) {
        let is_relative = in_time.iter().any(|cycles| cycles.cycle.is_relative);
        let is_kept = !is_restart && !is_relative && self.restarted == 0;
        if is_kept || self.kept > self.restarted {
            self.pass(in_time, passed);
        } else if self.ambiguous.len() < MAX_AMBIGUOUS / 2 {
            self.ambiguous.extend(in_time);
        }
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Address, Cpu, ThreadActivation, WokenBy};

    use super::super::TimelineCycle;
    use super::*;
    use crate::attach::undecided::tests::{POLICY, cycle};

    /// Returns a cycle that a timer starts: due time, start and end of the run.
    fn entry(times: [Nanos; 3]) -> TimelineCycle {
        let whole = ThreadActivation::new(WokenBy::Timer(Address(1)), Cpu(0), times);
        TimelineCycle {
            response: whole.response(),
            cycle: cycle(whole),
            next: None,
            policy: POLICY,
            deadline: None,
            is_due: true,
        }
    }

    #[test]
    fn due_times_of_cycles_with_wakeups_do_not_wait() {
        const LATE: u64 = 500;
        let (ms, us) = (Nanos::from_ms, Nanos::from_us);
        let entry = |number: u64, done: Nanos, next: Option<Nanos>| TimelineCycle {
            next,
            ..entry([ms(number), done.saturating_sub(us(5)), done])
        };
        let mut timeline = Timeline::new(Some(ms(1)));
        for number in 1..64 {
            let passed = timeline.add(entry(number, ms(number) + us(20), None), None);
            assert!(passed.is_empty(), "{passed:?}");
        }

        // The thread is 500 ms late, and has a wakeup for each cycle: at its old due time.
        let start = ms(64 + LATE);
        for number in 64..64 + LATE {
            let done = start + us(10 * (number - 63));
            let passed = timeline.add(entry(number, done, Some(ms(number + 1))), None);

            assert!(passed.is_empty(), "{passed:?}");
            assert!(timeline.waiting.is_empty(), "{:?}", timeline.waiting);
        }
    }

    /// A busy machine lets the thread run at its ticks, which are 4 ms apart. The sleeps therefore end
    /// at regular times.
    #[test]
    fn thread_that_sleeps_for_a_time_and_runs_at_ticks_has_no_due_times() {
        let (ms, us) = (Nanos::from_ms, Nanos::from_us);
        let sleep = us(1_990);
        let mut timeline = Timeline::new(None);
        let mut due = ms(2);
        let mut add = |running: Nanos, done: Nanos| {
            let mut entry = entry([due, running, done]);
            entry.cycle.is_relative = true;
            due = done + sleep;
            timeline.add(entry, None)
        };
        for tick in 1..=20 {
            let passed = add(ms(4 * tick), ms(4 * tick) + us(10));
            assert!(passed.is_empty(), "{passed:?}");
        }

        // The work of one cycle ends between two ticks.
        let late = add(ms(84), us(121_700));
        let after = (31..40).map(|tick| add(ms(4 * tick), ms(4 * tick) + us(10)));

        let passed: Vec<_> = [late].into_iter().chain(after).flatten().collect();
        assert!(passed.is_empty(), "{passed:?}");
    }

    /// Returns the number of due times without a wakeup that count. A loop of 25 ms waits for timeouts in
    /// ms, and is late for 300 ms four times, each time until soon after a due time. It then continues
    /// at its due times, or is due 25 ms after the end of its late cycle.
    fn passed_in_late_cycles(restarts: bool) -> usize {
        const PERIOD: u64 = 25_000;
        let us = Nanos::from_us;
        let mut timeline = Timeline::new(None);
        let mut passed = Vec::new();
        let (mut due, mut now) = (PERIOD, 0);
        for cycle in 0..199 {
            let origin = now + (due + 500 - now).div_ceil(1_000) * 1_000;
            let late = (cycle % 40 == 39).then_some(due + 12 * PERIOD + 300 + 10 * cycle);
            now = late.unwrap_or(origin + 100);
            let mut entry = entry([us(origin), us(origin.max(now - 100)), us(now)]);
            entry.cycle.timeout_resolution = Nanos::from_ms(1);
            passed.extend(timeline.add(entry, None));
            let is_new = restarts && late.is_some();
            due = if is_new { now } else { due };
            due += (1 + (now - due) / PERIOD) * PERIOD;
        }
        passed.extend(timeline.settle());
        passed.iter().map(|late| late.due.len()).sum()
    }

    #[test]
    fn different_sleeps_after_late_cycles_show_that_a_program_keeps_its_due_times() {
        // Rounding hides a due time just before the end of a late cycle.
        assert!((4 * 11..=4 * 12).contains(&passed_in_late_cycles(false)));
        assert_eq!(passed_in_late_cycles(true), 0);
    }
}
