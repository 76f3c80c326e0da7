//! Cycles: activations of a thread, joined from the wake that starts a cycle until the
//! thread waits at its home wait again.

mod home;
mod pace;
mod site;
mod unfinished;

use std::collections::VecDeque;

use laggard_model::{
    ActivationEnd, Nanos, ThreadActivation, ThreadHappening, ThreadTold, ThreadUsage, Tid,
    WaitSite, WatchedThread, WokenBy,
};

pub(super) use home::Home;
use home::Sleeps;
use pace::{Pace, PaceStart};
pub(super) use pace::{median, spread};
pub(super) use site::SiteKey;
pub use site::{AttachSite, WaitKind};
use site::{is_for_all_events, is_restarted};
pub(super) use site::{may_be_lock, timeout_resolution, wait_kind};
pub(super) use unfinished::UnfinishedCycle;

/// laggard searches for the home wait after these numbers of sleeps: few for an unambiguous kind.
const EARLY_SLEEPS: usize = 8;
const MAX_UNDECIDED_SLEEPS: usize = 64;
/// Number of further sleeps until laggard searches again for the home wait.
const REVIEW_SLEEPS: usize = 256;
/// Activations that wait for the decision are not older than this. Irregular sleeps for a time can be
/// the start of a program, before its first cycle.
pub(super) const MAX_UNDECIDED_AGE: Nanos = Nanos::from_ms(1_500);
const MAX_IRREGULAR_AGE: Nanos = Nanos::from_secs(10);
/// Activations of a cycle that are kept; further ones only add to its sums.
const MAX_PARTS: usize = 256;

/// End of a cycle, as the user chose it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum CycleChoice {
    /// The wait that carries the period of the thread.
    #[default]
    Auto,
    /// Each sleep.
    Wake,
    /// Sleeps in this system call, on this descriptor if one is given.
    Call {
        /// Name of the system call.
        name: String,
        descriptor: Option<u64>,
    },
}

/// A cycle of a thread; without a home wait, an activation.
#[derive(Clone, Debug)]
pub struct ThreadCycle {
    /// The thread at the end of the cycle.
    pub thread: WatchedThread,
    /// All of it.
    pub whole: ThreadActivation,
    /// Its activations in order; empty: it has only one.
    pub(super) parts: Vec<ThreadActivation>,
    /// Activations before it that ended after it was due.
    pub(super) before: Vec<ThreadActivation>,
    /// Whether nothing was due: a signal or a stop ended a timed sleep early.
    pub(super) is_interruption: bool,
    /// Whether its thread sleeps for a time and is not known to keep a rate: no cycle is due while an
    /// earlier one goes on.
    pub(super) is_relative: bool,
    /// Resolution of the timeouts of its thread: 1 ms in `poll` and `epoll_wait`.
    pub(super) timeout_resolution: Nanos,
    /// Thread that went on with the cycle, and its first part.
    pub(super) successor: Option<(Tid, usize)>,
}

impl ThreadCycle {
    /// Its activations in order; never empty.
    pub(super) fn parts(&self) -> &[ThreadActivation] {
        if self.parts.is_empty() {
            std::slice::from_ref(&self.whole)
        } else {
            &self.parts
        }
    }

    /// Longest wait within the cycle for input that another thread or a device sent, such as a
    /// command on a pipe.
    pub(super) fn longest_input_wait(&self) -> Nanos {
        let waits = self.parts().windows(2).filter(|two| {
            let is_timeout = matches!(two[1].woken, WokenBy::Timer(_) | WokenBy::Wheel(_));
            wait_kind(&two[0]) == WaitKind::Event && !is_timeout
        });
        let lengths = waits.map(|two| two[1].waking.saturating_sub(two[0].done));
        lengths.max().unwrap_or(Nanos::ZERO)
    }

    /// Returns whether the thread waits for all its events after this cycle. If it sleeps past a due
    /// time there, it has set its timer for a later time.
    pub(super) fn waits_for_all_events(&self) -> bool {
        is_for_all_events(&self.whole.site)
    }

    /// Returns the cycle that consists of this one and the next.
    pub(super) fn with_next(&self, next: &Self) -> Self {
        Self {
            thread: next.thread,
            whole: joined(&self.whole, &next.whole),
            parts: [self.parts(), next.parts()].concat(),
            successor: None,
            ..self.clone()
        }
    }

    /// Execution time after a time.
    pub(super) fn execution_after(&self, time: Nanos) -> Nanos {
        let parts = self.parts().iter().map(|part| {
            // `running` is the latest possible time if the start was not seen.
            let start = if part.run_seen {
                part.running
            } else {
                part.waking
            };
            let elapsed = part.done.saturating_sub(start);
            let execution = elapsed.saturating_sub(part.preempted + part.blocked);
            execution.min(part.done.saturating_sub(start.max(time)))
        });
        parts.fold(Nanos::ZERO, |sum, time| sum + time)
    }

    /// Returns this cycle as it was until `end`.
    pub(super) fn until(&self, end: Nanos) -> Self {
        let mut cycle = self.clone();
        // The end of a cycle that another thread went on with is not in its activations.
        if end >= cycle.whole.done || cycle.successor.is_some() {
            return cycle;
        }
        // In a wait, it has not ended.
        let last = cycle.parts.iter().position(|part| part.done >= end);
        cycle
            .parts
            .truncate(last.map_or(cycle.parts.len(), |last| last + 1));
        if let Some(last) = cycle.parts.last_mut() {
            last.done = last.running.max(end);
        }
        let parts = cycle.parts.iter().copied();
        let sum = parts.reduce(|sum, next| joined(&sum, &next));
        cycle.whole = sum.unwrap_or(ThreadActivation {
            done: end,
            ..cycle.whole
        });
        cycle
    }

    /// Returns a cycle without a wakeup that was due at `due`, while this one went on.
    pub(super) fn passed(&self, due: Nanos) -> Self {
        let parts = self.parts();
        Self {
            thread: self.thread,
            whole: ThreadActivation {
                origin: due,
                due,
                waking: due,
                running: due,
                ..self.whole
            },
            parts: Vec::new(),
            before: self.before.iter().chain(parts).copied().collect(),
            is_interruption: false,
            is_relative: self.is_relative,
            timeout_resolution: self.timeout_resolution,
            successor: None,
        }
    }

    /// Returns whether the thread slept in a frozen control group, and the end of the freeze woke it.
    pub(super) const fn is_thawed(&self) -> bool {
        self.whole.was_frozen && matches!(self.whole.woken, WokenBy::Thread(..))
    }

    /// Returns this cycle as due at `due`, during the freeze before it.
    pub(super) fn frozen_since(&self, due: Nanos) -> Self {
        let mut cycle = self.clone();
        for first in cycle.parts.iter_mut().take(1).chain([&mut cycle.whole]) {
            (first.origin, first.due) = (due, due);
        }
        cycle.is_interruption = false;
        cycle
    }

    /// Returns this cycle as due at `due`, during the late cycle before it.
    pub(super) fn due_in(&self, late: &Self, due: Nanos) -> Self {
        let mut cycle = self.clone();
        for first in cycle.parts.iter_mut().take(1).chain([&mut cycle.whole]) {
            (first.origin, first.due) = (due, due);
        }
        let before = late.before.iter().chain(late.parts());
        cycle.before = before.filter(|part| part.done > due).copied().collect();
        let surplus = cycle.before.len().saturating_sub(MAX_PARTS);
        cycle.before.drain(..surplus);
        cycle
    }

    /// Adds the activations of the started thread whose end is the end of the cycle. Activations
    /// of the first thread after the start are not part of the cycle.
    pub(super) fn go_on(&mut self, thread: Tid, course: &[ThreadActivation]) {
        let (Some(first), Some(last)) = (course.first(), course.last()) else {
            return;
        };
        if last.done <= self.whole.done {
            return;
        }
        let mut parts = self.parts().to_vec();
        parts.retain(|part| part.running <= first.waking);
        if let Some(part) = parts.last_mut() {
            part.done = part.done.min(first.waking);
        }
        self.successor = Some((thread, parts.len()));
        parts.extend(course);
        let Some(mut whole) = parts
            .iter()
            .copied()
            .reduce(|sum, next| joined(&sum, &next))
        else {
            return;
        };
        // The start of a thread is not a sleep.
        whole.waits.sleeps = whole.waits.sleeps.saturating_sub(1);
        self.whole = whole;
        self.parts = parts;
    }
}

/// Joins the activations of one thread.
#[derive(Debug, Default)]
pub(super) struct CycleBuilder {
    sleeps: Sleeps,
    home: Option<Home>,
    /// Until the home wait is known.
    undecided: VecDeque<(WatchedThread, ThreadActivation)>,
    /// Activations of the cycle that the thread is in.
    open: Vec<ThreadActivation>,
    sum: Option<ThreadActivation>,
    /// Earlier activations that can overlap with the next cycle.
    before: Vec<ThreadActivation>,
    next_sequence: u64,
    last_site: Option<ThreadActivation>,
    /// laggard searches for the home wait again after this number of sleeps.
    review_at: usize,
    /// Site of the call that the user gave as the end of a cycle.
    given: Option<(WaitSite, WaitKind)>,
    /// Whether the thread waited at its home wait before the cycle that it is in.
    is_start_known: bool,
    pace: Pace,
    /// Last activation of a thread that also sleeps within its cycles: the next one shows whether it
    /// was the end of a cycle.
    held: Option<(WatchedThread, ThreadActivation)>,
}

impl CycleBuilder {
    /// Returns whether the newest sleeps of the thread were waits for locks and conditions only.
    pub(super) fn waits_only_for_locks(&self) -> bool {
        self.sleeps.are_for_locks()
    }

    /// Home wait of the thread; `None` until it is known.
    pub(super) fn home(&self) -> Home {
        self.home.unwrap_or(Home::Undecided)
    }

    /// Site where the cycles end: the home wait, or the wait in the given call.
    pub(super) fn site(&self) -> Option<AttachSite> {
        let (site, kind) = match self.home() {
            Home::At(key, site) => (site, key.kind),
            Home::None | Home::Undecided => self.given?,
        };
        Some(AttachSite::new(&site, kind))
    }

    /// Adds a record of the thread, in order; cycles that end are appended to `into`.
    pub(super) fn add(
        &mut self,
        record: &ThreadTold,
        choice: &CycleChoice,
        into: &mut Vec<ThreadCycle>,
    ) {
        let sequence = u64::from(record.sequence);
        if sequence != self.next_sequence {
            self.tear(choice, into);
        }
        self.next_sequence = sequence + 1;
        let ThreadHappening::Done(mut activation) = record.what else {
            return;
        };
        // A wait that goes on after a signal has the number of another call.
        if is_restarted(&activation.site) {
            let before = self.last_site.filter(|before| before.end == activation.end);
            activation.site = before.map_or(activation.site, |before| before.site);
        } else if activation.end == ActivationEnd::Slept {
            self.last_site = Some(activation);
        }
        self.sleeps.add(&activation);
        if self.home.is_none() {
            self.undecided.push_back((record.thread, activation));
            let total = self.sleeps.total();
            let is_irregular = total < pace::MAX_SLEEPS && self.sleeps.is_irregular();
            if total >= MAX_UNDECIDED_SLEEPS && !is_irregular {
                self.decide(true, choice, into);
            } else if total >= EARLY_SLEEPS && total.is_multiple_of(EARLY_SLEEPS) {
                self.decide(false, choice, into);
            }
            return;
        }
        if self.sleeps.total() >= self.review_at {
            self.review(choice, into);
        }
        self.note_pace(&activation, choice);
        self.join(record.thread, activation, choice, into);
    }

    /// Decides on the home wait if it was undecided for long, or if `is_final`.
    pub(super) fn settle(
        &mut self,
        now: Nanos,
        is_final: bool,
        choice: &CycleChoice,
        into: &mut Vec<ThreadCycle>,
    ) {
        let oldest = self
            .undecided
            .front()
            .map(|(_, activation)| activation.origin);
        let max_age = if self.sleeps.is_irregular() {
            MAX_IRREGULAR_AGE
        } else {
            MAX_UNDECIDED_AGE
        };
        let is_old = oldest.is_some_and(|oldest| now.saturating_sub(oldest) > max_age);
        if self.home.is_none() && (is_old || is_final) {
            self.decide(true, choice, into);
        }
    }

    /// Looks for the home wait again: after few sleeps soon, later seldom.
    fn review(&mut self, choice: &CycleChoice, into: &mut Vec<ThreadCycle>) {
        let home = Some(self.choose(true, choice));
        // Other arguments of the same call may differ.
        let is_same = match (home, self.home) {
            (Some(Home::At(key, _)), Some(Home::At(before, _))) => key == before,
            _ => home == self.home,
        };
        if !is_same {
            self.release(choice, into);
            self.pace.forget();
            // The open cycle started at another wait.
            self.home = home;
            self.open.clear();
            self.sum = None;
            self.is_start_known = false;
        }
        self.set_review();
    }

    fn set_review(&mut self) {
        let total = self.sleeps.total();
        self.review_at = total + total.clamp(EARLY_SLEEPS, REVIEW_SLEEPS);
    }

    /// Records were lost: the open cycle cannot be joined.
    fn tear(&mut self, choice: &CycleChoice, into: &mut Vec<ThreadCycle>) {
        if self.home.is_none() {
            self.decide(true, choice, into);
            self.home = None;
        }
        self.release(choice, into);
        self.pace.forget();
        self.sleeps.forget_last();
        self.open.clear();
        self.sum = None;
        self.before.clear();
        self.last_site = None;
        self.is_start_known = false;
    }

    fn decide(&mut self, is_final: bool, choice: &CycleChoice, into: &mut Vec<ThreadCycle>) {
        let home = self.choose(is_final, choice);
        if home == Home::Undecided {
            return;
        }
        self.home = Some(home);
        self.set_review();
        let undecided = std::mem::take(&mut self.undecided);
        for (_, activation) in &undecided {
            self.note_pace(activation, choice);
        }
        self.pace.search();
        for (thread, activation) in undecided {
            self.join(thread, activation, choice, into);
        }
    }

    /// Notes the sleeps of a thread that sleeps for or until a time. Timeouts of other calls may be
    /// rounded, so their lengths do not show whether the thread keeps a rate.
    fn note_pace(&mut self, activation: &ThreadActivation, choice: &CycleChoice) {
        if *choice == CycleChoice::Auto
            && let Some(Home::At(home, _)) = self.home
            && matches!(home.kind, WaitKind::SleepFor | WaitKind::SleepUntil)
        {
            let is_home = self.is_home_wait(activation);
            self.pace.add(activation, is_home);
        }
    }

    fn choose(&self, is_final: bool, choice: &CycleChoice) -> Home {
        match choice {
            CycleChoice::Auto => self.sleeps.home(is_final),
            CycleChoice::Wake | CycleChoice::Call { .. } => Home::None,
        }
    }

    fn join(
        &mut self,
        thread: WatchedThread,
        activation: ThreadActivation,
        choice: &CycleChoice,
        into: &mut Vec<ThreadCycle>,
    ) {
        if !self.pace.has_inner_sleeps() {
            self.release(choice, into);
            let is_end = self.ends(&activation, choice);
            self.append(thread, activation, is_end, choice, into);
            return;
        }
        if self.open.len() >= MAX_PARTS {
            self.release(choice, into);
            self.pace.give_up();
            self.split(thread, |_, _| true, choice, into);
            self.append(
                thread,
                activation,
                self.ends(&activation, choice),
                choice,
                into,
            );
            return;
        }
        if let Some((before, last)) = self.held.replace((thread, activation)) {
            let start = self.pace.start(&activation, last.done);
            let is_end = start == PaceStart::Yes && self.ends(&last, choice);
            self.append(before, last, is_end, choice, into);
            if let PaceStart::Since(first) = start {
                let starts = |pace: &Pace, part: &ThreadActivation| {
                    part.origin >= first && pace.is_due(part.origin)
                };
                self.split(before, starts, choice, into);
            }
        }
    }

    /// Adds the last activation, if it still waits for the next one.
    pub(super) fn release(&mut self, choice: &CycleChoice, into: &mut Vec<ThreadCycle>) {
        if let Some((thread, last)) = self.held.take() {
            let is_end = self.ends(&last, choice);
            self.append(thread, last, is_end, choice, into);
        }
    }

    /// Splits the open cycle at the activations that start a cycle, and ends it.
    fn split(
        &mut self,
        thread: WatchedThread,
        starts: impl Fn(&Pace, &ThreadActivation) -> bool,
        choice: &CycleChoice,
        into: &mut Vec<ThreadCycle>,
    ) {
        self.sum = None;
        let mut parts = std::mem::take(&mut self.open).into_iter().peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none_or(|next| starts(&self.pace, next));
            let is_end = is_last && self.ends(&part, choice);
            self.append(thread, part, is_end, choice, into);
        }
    }

    fn append(
        &mut self,
        thread: WatchedThread,
        activation: ThreadActivation,
        is_end: bool,
        choice: &CycleChoice,
        into: &mut Vec<ThreadCycle>,
    ) {
        if is_end && matches!(choice, CycleChoice::Call { .. }) {
            self.given = Some((activation.site, wait_kind(&activation)));
        }
        if is_end && self.open.is_empty() {
            let before = self.overlapping(activation.origin);
            self.remember(activation.origin, &[activation]);
            into.push(self.cycle(thread, activation, Vec::new(), before));
            self.is_start_known = true;
            return;
        }
        let sum = match self.sum {
            None => activation,
            Some(sum) => joined(&sum, &activation),
        };
        self.sum = Some(sum);
        if self.open.len() < MAX_PARTS {
            self.open.push(activation);
        }
        if is_end {
            let before = self.overlapping(sum.origin);
            let parts = std::mem::take(&mut self.open);
            self.sum = None;
            self.remember(sum.origin, &parts);
            into.push(self.cycle(thread, sum, parts, before));
            self.is_start_known = true;
        }
    }

    /// Keeps the activations of a cycle that was due at `origin`: later ones are due later,
    /// perhaps before these ended.
    fn remember(&mut self, origin: Nanos, parts: &[ThreadActivation]) {
        self.before = self.overlapping(origin);
        self.before.extend(parts);
        let surplus = self.before.len().saturating_sub(MAX_PARTS);
        self.before.drain(..surplus);
    }

    fn cycle(
        &self,
        thread: WatchedThread,
        whole: ThreadActivation,
        parts: Vec<ThreadActivation>,
        before: Vec<ThreadActivation>,
    ) -> ThreadCycle {
        let is_timed = matches!(
            self.home,
            Some(Home::At(key, _)) if matches!(key.kind, WaitKind::SleepUntil | WaitKind::SleepFor)
        );
        let is_by_timer = matches!(whole.woken, WokenBy::Timer(_));
        let is_cut_short = whole.waits.stops > 0 || !self.is_start_known;
        let is_interruption = !whole.start_seen
            || (is_timed && !is_by_timer && is_cut_short)
            || parts.first().is_some_and(is_stop);
        ThreadCycle {
            thread,
            whole,
            parts,
            before,
            is_interruption,
            is_relative: !self.pace.keeps_rate()
                && matches!(self.home, Some(Home::At(key, _)) if key.kind == WaitKind::SleepFor),
            timeout_resolution: match self.home {
                Some(Home::At(_, site)) => timeout_resolution(&site),
                Some(Home::None | Home::Undecided) | None => Nanos::ZERO,
            },
            successor: None,
        }
    }

    /// Returns whether the wait after this activation ends the cycle.
    fn ends(&self, activation: &ThreadActivation, choice: &CycleChoice) -> bool {
        let Some(key) = SiteKey::new(activation) else {
            return false;
        };
        match (choice, self.home) {
            (CycleChoice::Call { name, descriptor }, _) => {
                let is_it = activation.site.call.is_some_and(|call| call.name == name);
                is_it && descriptor.is_none_or(|number| number == activation.site.object)
            }
            (CycleChoice::Auto, Some(Home::At(home, _))) => key == home,
            (CycleChoice::Auto | CycleChoice::Wake, _) => true,
        }
    }

    /// Returns the activations before a cycle that ended after it was due at `origin`. If it
    /// was due in a wait between two of them, such as a stop, the first of them is included.
    fn overlapping(&self, origin: Nanos) -> Vec<ThreadActivation> {
        let is_later = |activation: &ThreadActivation| activation.done > origin;
        let Some(first) = self.before.iter().position(is_later) else {
            return Vec::new();
        };
        let previous = first.checked_sub(1);
        let previous = previous.filter(|&place| !self.is_home_wait(&self.before[place]));
        self.before[previous.unwrap_or(first)..].to_vec()
    }

    /// Returns whether the thread waits for its next cycle after this activation.
    fn is_home_wait(&self, activation: &ThreadActivation) -> bool {
        match (SiteKey::new(activation), self.home) {
            (None, _) => false,
            (Some(key), Some(Home::At(home, _))) => key == home,
            (Some(_), _) => true,
        }
    }
}

/// Returns whether a thread woke only to stop.
fn is_stop(activation: &ThreadActivation) -> bool {
    const MAX_EXECUTION: Nanos = Nanos::from_us(200);
    let stops = matches!(
        activation.end,
        ActivationEnd::Stopped | ActivationEnd::Traced | ActivationEnd::Frozen
    );
    let by_thread = matches!(activation.woken, WokenBy::Thread(..));
    stops && by_thread && activation.execution() <= MAX_EXECUTION
}

/// Joins an activation to the earlier ones of its cycle.
fn joined(sum: &ThreadActivation, next: &ThreadActivation) -> ThreadActivation {
    let gap = next.waking.saturating_sub(sum.done);
    let mut waits = sum.waits;
    let (mut blocked, mut blocks) = (sum.blocked, sum.blocks);
    match sum.end {
        ActivationEnd::Slept | ActivationEnd::Period => {
            waits.sleeps += 1;
            waits.slept += gap;
        }
        ActivationEnd::Blocked => {
            blocks += 1;
            blocked += gap;
        }
        ActivationEnd::Stopped | ActivationEnd::Traced | ActivationEnd::Frozen => {
            waits.stops += 1;
            waits.stopped += gap;
        }
    }
    let queued = next.running.saturating_sub(next.waking.max(sum.done));
    ThreadActivation {
        back_seen: sum.back_seen && next.back_seen && next.wake_seen && next.run_seen,
        done: next.done,
        preempted: sum.preempted + next.preempted + queued,
        blocked,
        preemptions: sum.preemptions + next.preemptions,
        migrations: sum.migrations + next.migrations + u32::from(next.first_cpu != sum.cpu),
        blocks,
        cpu: next.cpu,
        end: next.end,
        site: next.site,
        lock: next.lock,
        usage: ThreadUsage {
            system: sum.usage.system + next.usage.system,
            minor_faults: sum.usage.minor_faults + next.usage.minor_faults,
            major_faults: sum.usage.major_faults + next.usage.major_faults,
            throttled: sum.usage.throttled + next.usage.throttled,
            reclaim: sum.usage.reclaim + next.usage.reclaim,
            waits_for_memory: next.usage.waits_for_memory,
            spun_for: sum.usage.spun_for.or(next.usage.spun_for),
        },
        waits,
        ..*sum
    }
}
