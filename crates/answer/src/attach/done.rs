//! Counts the cycles that ended.

use laggard_model::{ActivationEnd, Nanos, ThreadPolicy, WokenWay};

use super::cycle::ThreadCycle;
use super::line::LineState;
use super::release::Releasers;
use super::timeline::PassedCycles;
use super::undecided::MissedEarlier;
use super::{AttachChosen, AttachCollector, AttachStops, MAX_LINES, above};

impl AttachCollector {
    /// Counts a cycle, or keeps it until it is known when it was due, and whether a cycle was due in it.
    pub(super) fn add_cycle(&mut self, number: u32, cycle: ThreadCycle) {
        if let Some(cycle) = self.hold_after_zero_sleep(number, cycle) {
            self.end_in_order(number, cycle);
        }
    }

    /// Counts a cycle, or keeps it until it is known whether a cycle was due in it.
    pub(super) fn end_in_order(&mut self, number: u32, cycle: ThreadCycle) {
        let by_timer = self.lines.get(&(number, WokenWay::Timer));
        let thawed = by_timer.filter(|_| cycle.is_thawed());
        // The kernel does not report which timer expired during the freeze.
        let cycle = thawed.and_then(|line| line.due_in(&cycle)).unwrap_or(cycle);
        let Some(state) = self.threads.get_mut(&number) else {
            return;
        };
        state.stops.add(&cycle);
        self.end_pause(number, &cycle);
        self.end_late(number, Some(cycle.whole.origin));
        let Some(state) = self.threads.get_mut(&number) else {
            return;
        };
        if let Some(interruption) = state.interruption.take() {
            let by_timer = cycle.whole.woken.way() == WokenWay::Timer;
            let goes_on = by_timer && cycle.whole.origin <= interruption.whole.done;
            self.end_interruption(number, &interruption, goes_on);
        }
        let line = self.lines.get(&(number, cycle.whole.woken.way()));
        let is_late = line.is_some_and(|line| line.is_passed_in(&cycle.whole));
        if !cycle.is_interruption && !is_late {
            self.count(number, cycle, None);
        } else if let Some(state) = self.threads.get_mut(&number) {
            let waiting = if cycle.is_interruption {
                &mut state.interruption
            } else {
                &mut state.late
            };
            *waiting = Some(cycle);
        }
    }

    /// Counts the late cycles whose next cycle did not come.
    pub(super) fn settle_late(&mut self) {
        for number in self.threads.keys().copied().collect::<Vec<_>>() {
            self.release_after_zero_sleep(number, None);
            self.end_late(number, None);
        }
    }

    /// Counts the last cycle of a thread if it waits for the next one, which was due at `next`.
    pub(super) fn end_late(&mut self, number: u32, next: Option<Nanos>) {
        let state = self.threads.get_mut(&number);
        if let Some(late) = state.and_then(|state| state.late.take()) {
            let key = (number, late.whole.woken.way());
            let (late, following) = self.divided(number, late, next);
            if let Some(line) = self.lines.get_mut(&key) {
                let restarts = next.is_some_and(|next| line.timeline.restarts_at(&late, next));
                line.timeline.restarts = following.is_some() || restarts;
            }
            let next = next.filter(|&next| next < late.whole.done);
            self.count(number, late, next);
            if let Some(line) = self.lines.get_mut(&key) {
                line.timeline.restarts = false;
            }
            if let Some(following) = following {
                self.count(number, following, None);
            }
        }
    }

    /// Ends the interruptions whose next cycle did not come.
    pub(super) fn settle_interruptions(&mut self) {
        let threads = self.threads.iter_mut();
        let last =
            threads.filter_map(|(&number, state)| Some((number, state.interruption.take()?)));
        for (number, interruption) in last.collect::<Vec<_>>() {
            self.end_interruption(number, &interruption, false);
        }
    }

    /// Counts the cycle that was due in an interruption. `goes_on`: the sleep went on after it, and
    /// the cycle that was due in it is the next one.
    fn end_interruption(&mut self, number: u32, interruption: &ThreadCycle, goes_on: bool) {
        let Some(line) = self.lines.get_mut(&(number, WokenWay::Timer)) else {
            return;
        };
        if !goes_on && let Some(cycle) = line.due_in(interruption) {
            self.count(number, cycle, None);
        } else {
            line.add_other(interruption, interruption.thread.policy);
            let passed = line.take_passed();
            self.choose_passed((number, WokenWay::Timer), &passed);
        }
    }

    /// Counts a cycle. `next`: due time of the next cycle of the thread, if this was before its end.
    fn count(&mut self, number: u32, cycle: ThreadCycle, next: Option<Nanos>) {
        let source = cycle.whole.woken.way();
        let has_deadline = self.implies_deadline(number, source);
        let Some(state) = self.threads.get_mut(&number) else {
            return;
        };
        let job = state.backlog.job(&cycle.whole);
        let policy = cycle.thread.policy;
        let key = (number, source);
        let Some(line) = self.line(key, policy) else {
            if let Some(state) = self.threads.get_mut(&number) {
                state.uncounted += 1;
            }
            return;
        };
        let picked = line.add((&cycle, next), policy, job, has_deadline);
        let counted = picked.caught_up.unwrap_or_else(|| cycle.clone());
        let (passed, deadline) = (line.take_passed(), line.deadline);
        let page_fault = self.asked.page_fault;
        let earlier = picked.earlier.into_iter();
        self.chosen
            .extend(earlier.map(|late| AttachChosen::new(key, late, page_fault)));
        let is_above = above(self.wanted_above, &counted.whole);
        if picked.missed || picked.is_largest || is_above {
            self.chosen.push(AttachChosen {
                number,
                way: source,
                policy,
                cycle: counted.clone(),
                missed: picked.missed,
                passed: Vec::new(),
                is_ongoing: false,
                is_postponed: false,
                is_left_out: false,
                deadline,
                page_fault,
                ready: Vec::new(),
                releasers: Releasers::new(),
            });
        }
        self.choose_passed((number, source), &passed);
        // The timers and messages of the thread may be due during the cycle.
        let lines = self.lines.range((number, WokenWay::Timer)..);
        let lines = lines.take_while(|((owner, _), _)| *owner == number);
        let others: Vec<WokenWay> = lines.map(|((_, way), _)| *way).collect();
        for way in others.into_iter().filter(|way| *way != source) {
            if let Some(line) = self.lines.get_mut(&(number, way)) {
                line.add_other(&cycle, policy);
                let passed = line.take_passed();
                self.choose_passed((number, way), &passed);
            }
        }
        self.limit_chosen();
        self.ended.push(ThreadCycle {
            before: Vec::new(),
            ..counted
        });
    }

    /// Returns the line of a thread with this policy. `None`: there are too many lines.
    pub(super) fn line(
        &mut self,
        key: (u32, WokenWay),
        policy: ThreadPolicy,
    ) -> Option<&mut LineState> {
        let has_room = self.lines.len() < MAX_LINES || policy.is_real_time();
        if !has_room && !self.lines.contains_key(&key) {
            return None;
        }
        let asked = &self.asked;
        let new = || LineState::new(asked.limit(), asked.period, asked.steps);
        Some(self.lines.entry(key).or_insert_with(new))
    }

    /// Drops the activations of the least urgent chosen cycles if there are many: each can have
    /// hundreds of them.
    fn limit_chosen(&mut self) {
        const MAX_CHOSEN: usize = 1_024;
        if self.chosen.len() < self.left_out + 2 * MAX_CHOSEN {
            return;
        }
        let is_largest = |cycle: &AttachChosen| {
            let line = self.lines.get(&(cycle.number, cycle.way));
            line.is_some_and(|line| line.is_largest(cycle.activation()))
        };
        self.chosen
            .sort_by_key(|cycle| (!is_largest(cycle), cycle.urgency()));
        for chosen in &mut self.chosen[MAX_CHOSEN..] {
            chosen.is_left_out = true;
            (chosen.cycle.before, chosen.cycle.parts) = (Vec::new(), Vec::new());
        }
        self.left_out = self.chosen.len() - MAX_CHOSEN;
    }

    /// Adds the cycles that were due while an earlier one went on to the ended cycles, and chooses
    /// some of them: each represents the cycles after it.
    pub(super) fn choose_passed(&mut self, key: (u32, WokenWay), passed: &[PassedCycles]) {
        const MAX_CHOSEN: usize = 8;
        // The cycle that went on may belong to another line.
        let line = self.lines.get(&key);
        let woken = line.and_then(|line| Some(line.slowest.as_ref()?.activation.woken));
        for passed in passed {
            let late = |cycle: ThreadCycle| MissedEarlier {
                cycle,
                policy: passed.policy,
                deadline: passed.deadline,
            };
            // A joined cycle has a wakeup.
            let is_first = passed.due.first() == Some(&passed.cycle.whole.origin);
            if is_first {
                self.ended.push(passed.first());
                let late = late(passed.first());
                self.chosen
                    .push(AttachChosen::new(key, late, self.asked.page_fault));
            }
            let due = &passed.due[usize::from(is_first)..];
            if due.is_empty() {
                continue;
            }
            let without_wake = |due: Nanos| {
                let mut cycle = passed.cycle.until(passed.end(due)).passed(due);
                cycle.whole.woken = woken.unwrap_or(cycle.whole.woken);
                (cycle.whole.wake_seen, cycle.whole.run_seen) = (false, false);
                cycle
            };
            let mut ended = without_wake(due[0]);
            ended.before.clear();
            for &due in due {
                let whole = &mut ended.whole;
                (whole.origin, whole.due, whole.waking, whole.running) = (due, due, due, due);
                whole.done = passed.recorded_end(due);
                self.ended.push(ended.clone());
            }
            let due: Vec<Nanos> = due
                .iter()
                .copied()
                .filter(|&due| passed.is_late(due))
                .collect();
            for due in due.chunks(due.len().div_ceil(MAX_CHOSEN).max(1)) {
                let late = late(without_wake(due[0]));
                let responses = due.iter().map(|&due| passed.end(due).saturating_sub(due));
                self.chosen.push(AttachChosen {
                    passed: responses.collect(),
                    ..AttachChosen::new(key, late, self.asked.page_fault)
                });
            }
        }
    }
}

impl AttachStops {
    /// Adds the stops in a cycle.
    fn add(&mut self, cycle: &ThreadCycle) {
        for part in cycle.parts() {
            if part.was_frozen {
                self.frozen += 1;
                self.frozen_ns += part.waking.saturating_sub(part.due);
            }
        }
        for two in cycle.parts().windows(2) {
            let length = two[1].waking.saturating_sub(two[0].done);
            match two[0].end {
                ActivationEnd::Frozen => {
                    self.frozen += 1;
                    self.frozen_ns += length;
                }
                ActivationEnd::Stopped | ActivationEnd::Traced => {
                    self.stopped += 1;
                    self.stopped_ns += length;
                }
                ActivationEnd::Slept | ActivationEnd::Period | ActivationEnd::Blocked => {}
            }
        }
    }
}
