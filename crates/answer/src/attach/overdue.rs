//! Late cycles that go on, or that ended and are not counted yet, during the measurement.

use laggard_model::{Nanos, ThreadHappening, ThreadTold, WokenWay};

use super::cycle::{Home, ThreadCycle, WaitKind};
use super::line::LineState;
use super::{AttachChosen, AttachCollector, ThreadState, above};

impl AttachCollector {
    /// Returns whether a cycle may go on at `now` after its deadline. The states of the threads show
    /// it.
    pub fn may_be_overdue(&self, now: Nanos) -> bool {
        self.threads.iter().any(|(&number, state)| {
            let is_known = state.ended.is_none() && state.builder.home() != Home::Undecided;
            let since = state.builder.origin().unwrap_or(state.newest);
            let is_long = |limit: Nanos| now.saturating_sub(since) > limit;
            is_known && (state.late.is_some() || self.shortest_limit(number).is_some_and(is_long))
        })
    }

    /// Returns the cycles that go on at `now` after their deadline, or that ended after it and are not
    /// counted yet. `states`: the activations that the threads are in, and the numbers of their next
    /// records.
    pub fn overdue(&self, states: &[ThreadTold], now: Nanos) -> Vec<AttachChosen> {
        let mut overdue = Vec::new();
        for shown in states {
            let number = shown.thread.number;
            let ThreadHappening::Left(last) = shown.what else {
                continue;
            };
            // Otherwise the activation started after the records that were added.
            let is_newest = |state: &&ThreadState| state.highest == u64::from(shown.sequence);
            let Some(state) = self.threads.get(&number).filter(is_newest) else {
                continue;
            };
            if let Some(late) = &state.late {
                let next = last.map(|last| last.origin);
                let next = next.filter(|&next| next < late.whole.done);
                let line = self.lines.get(&(number, late.whole.woken.way()));
                let first = line.and_then(|line| line.without_caught_up(late, next));
                // The next cycle shows whether the thread has paused.
                let first = self.before_pause(number, late).or(first);
                let first = first.unwrap_or_else(|| late.clone());
                overdue.extend(self.overdue_cycle(number, first, false));
            }
            let ongoing = state.builder.ongoing(shown.thread, last, now);
            let ongoing = ongoing.filter(|ongoing| {
                let key = (number, ongoing.cycle.whole.woken.way());
                !ongoing.cycle.is_interruption && !self.may_wait_for_next(key, ongoing.waits_for)
            });
            let ongoing = ongoing.and_then(|it| self.overdue_cycle(number, it.cycle, true));
            overdue.extend(ongoing);
        }
        overdue
    }

    fn overdue_cycle(
        &self,
        number: u32,
        cycle: ThreadCycle,
        is_ongoing: bool,
    ) -> Option<AttachChosen> {
        let whole = cycle.whole;
        let way = whole.woken.way();
        let deadline = self.current_limit(number, way);
        let missed = deadline.is_some_and(|deadline| whole.response() > deadline);
        (missed || above(self.wanted_above, &whole)).then(|| AttachChosen {
            number,
            way,
            policy: cycle.thread.policy,
            missed,
            passed: Vec::new(),
            is_ongoing,
            is_postponed: false,
            is_left_out: false,
            deadline,
            page_fault: self.asked.page_fault,
            ready: self.ready.within(whole.origin, whole.done),
            releasers: self.releasers(number),
            cycle,
        })
    }

    /// Returns whether a thread that waits within a cycle may have ended its work: it waits for an
    /// event and has no given deadline or no period.
    fn may_wait_for_next(&self, (number, way): (u32, WokenWay), wait: Option<WaitKind>) -> bool {
        let line = self.lines.get(&(number, way));
        let has_period =
            line.is_some_and(LineState::is_mostly_periodic) && self.is_paced(number, way);
        match wait {
            Some(WaitKind::Event) => self.asked.limit().is_none() || !has_period,
            Some(wait) => !has_period && wait.can_be_home(),
            None => false,
        }
    }

    /// Deadline of the current cycles of a line, if it is known.
    fn current_limit(&self, number: u32, way: WokenWay) -> Option<Nanos> {
        self.asked.limit().or_else(|| {
            let period = self.lines.get(&(number, way))?.current_period()?;
            self.implies_deadline(number, way).then_some(period)
        })
    }

    /// Shortest length of a cycle of a thread that is shown.
    fn shortest_limit(&self, number: u32) -> Option<Nanos> {
        let lines = self.lines.range((number, WokenWay::Timer)..);
        let lines = lines.take_while(|((owner, _), _)| *owner == number);
        let limits = lines.filter_map(|(&(_, way), _)| self.current_limit(number, way));
        limits.chain(self.wanted_above).min()
    }

    /// Returns whether a cycle of a periodic thread took longer than its deadline.
    pub(super) fn is_past_deadline(&self, number: u32, cycle: &ThreadCycle) -> bool {
        let source = cycle.whole.woken.way();
        self.lines.get(&(number, source)).is_some_and(|line| {
            let limit = self.asked.limit().or(line.deadline).or(line.period());
            limit.is_some_and(|limit| cycle.whole.response() > limit)
                && line.is_mostly_periodic()
                && self.is_paced(number, source)
        })
    }
}
