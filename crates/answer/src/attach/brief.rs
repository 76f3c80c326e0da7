//! Brief threads: the C library starts one per expiry of a POSIX timer with `SIGEV_THREAD`, and it
//! ends with the timer's function. The cycle goes on until it has ended.

use std::collections::VecDeque;

use laggard_model::{Nanos, ThreadActivation, ThreadHappening, ThreadTold, Tid, WokenBy};

use super::cycle::{Home, MAX_UNDECIDED_AGE, ThreadCycle};
use super::{AttachCollector, ThreadState};

/// Cycles of a thread, in order. A cycle of a POSIX timer may go on in threads that it started.
#[derive(Debug, Default)]
pub(super) struct HeldCycles {
    /// Threads that were started since the last cycle: time of the start, and number.
    started: VecDeque<(Nanos, u32)>,
    /// Cycles that ended in the thread itself, with the threads that they started.
    waiting: VecDeque<(ThreadCycle, Vec<u32>)>,
}

/// State of a thread that another watched thread started.
#[derive(Debug)]
pub(super) struct StartedThread {
    /// Number of the thread that started it.
    starter: u32,
    /// Its activations while it may still be brief.
    course: Vec<ThreadActivation>,
    /// Cycles of a brief thread; empty: they are part of a cycle of another thread.
    cycles: Vec<ThreadCycle>,
    /// Whether it has ended without a home wait.
    is_brief: bool,
}

impl StartedThread {
    pub(super) const fn new(starter: u32) -> Self {
        Self {
            starter,
            course: Vec::new(),
            cycles: Vec::new(),
            is_brief: false,
        }
    }

    /// Adds an activation. `home`: the home wait of the thread so far.
    pub(super) fn add(&mut self, activation: ThreadActivation, home: Home) {
        if home == Home::Undecided {
            self.course.push(activation);
        } else {
            self.course.clear();
        }
    }
}

/// Returns whether the thread of the C library that starts the functions of POSIX timers ended this
/// activation: it waits for the timers' signals. A thread that any other cycle starts, such as one
/// that uploads a file, does not delay the next cycle.
fn starts_functions(whole: &ThreadActivation) -> bool {
    let call = whole.site.call.map(|call| call.name);
    matches!(whole.woken, WokenBy::Timer(_)) && call == Some("rt_sigtimedwait")
}

impl AttachCollector {
    /// Notes which threads are started, before the cycles of the same records end.
    pub(super) fn note_started(&mut self, records: &[ThreadTold]) {
        for record in records {
            if let ThreadHappening::Began(Some(starter)) = record.what {
                let held = self.held_cycles.entry(starter).or_default();
                held.started.push_back((record.at, record.thread.number));
            }
        }
    }

    /// Ends a cycle, unless a thread that it started goes on with it.
    pub(super) fn end_cycle(&mut self, number: u32, cycle: ThreadCycle) {
        let Some(held) = self.held_cycles.get_mut(&number) else {
            self.done(number, cycle);
            return;
        };
        let whole = &cycle.whole;
        let mut started = Vec::new();
        while let Some((at, thread)) = held.started.pop_front_if(|(at, _)| *at <= whole.done) {
            if at >= whole.running && starts_functions(whole) {
                started.push(thread);
            }
        }
        if held.waiting.is_empty() && started.is_empty() {
            self.done(number, cycle);
        } else {
            held.waiting.push_back((cycle, started));
        }
    }

    /// Notes that a thread has ended that may be brief. Returns its cycles if it is not.
    pub(super) fn end_started(
        &mut self,
        number: u32,
        (home, last): (Home, Option<ThreadActivation>),
        cycles: Vec<ThreadCycle>,
    ) -> Vec<ThreadCycle> {
        let process_of = |number: &u32| self.threads.get(number).map(|state| state.thread.process);
        let started = self
            .threads
            .get(&number)
            .and_then(|state| state.started.as_ref());
        let is_of_process = started.is_some_and(|started| {
            process_of(&started.starter).is_some()
                && process_of(&started.starter) == process_of(&number)
        });
        let state = self.threads.get_mut(&number);
        let Some((ended, started)) =
            state.and_then(|state| Some((state.ended?, state.started.as_mut()?)))
        else {
            return cycles;
        };
        if home != Home::Undecided || !is_of_process {
            started.course.clear();
            return cycles;
        }
        started.course.extend(last);
        started.cycles = cycles;
        started.is_brief = true;
        self.brief.push_back((ended, number));
        Vec::new()
    }

    /// Ends the cycles whose threads have ended. All records from before `until` were added.
    pub(super) fn release_cycles(&mut self, until: Nanos) {
        let held = self.held_cycles.iter();
        let held = held.filter(|(_, held)| !held.waiting.is_empty());
        let numbers: Vec<u32> = held.map(|(number, _)| *number).collect();
        for number in numbers {
            while let Some(cycle) = self.take_released(number, until) {
                self.done(number, cycle);
            }
        }
        let is_old =
            |time: Nanos| until.saturating_sub(time) > MAX_UNDECIDED_AGE + MAX_UNDECIDED_AGE;
        while let Some((_, number)) = self.brief.pop_front_if(|(ended, _)| is_old(*ended)) {
            let state = self.threads.get_mut(&number);
            let started = state.and_then(|state| state.started.take());
            for cycle in started.into_iter().flat_map(|started| started.cycles) {
                self.done(number, cycle);
            }
        }
    }

    /// Returns the next cycle of a thread that has ended.
    fn take_released(&mut self, number: u32, until: Nanos) -> Option<ThreadCycle> {
        let held = self.held_cycles.get_mut(&number)?;
        let (cycle, numbers) = held.waiting.front()?;
        let is_old = until.saturating_sub(cycle.whole.done) > MAX_UNDECIDED_AGE;
        let is_decided =
            |state: &ThreadState| state.ended.is_some() || state.builder.home() != Home::Undecided;
        let threads = numbers.iter().map(|number| self.threads.get(number));
        if !is_old
            && !threads
                .into_iter()
                .all(|state| state.is_some_and(is_decided))
        {
            return None;
        }
        let (mut cycle, numbers) = held.waiting.pop_front()?;
        let mut last: Option<(Vec<ThreadActivation>, Tid)> = None;
        for number in numbers {
            let Some(seen) = self.threads.get_mut(&number) else {
                continue;
            };
            let Some(started) = seen.started.take_if(|started| started.is_brief) else {
                continue;
            };
            let end_of = |course: &[ThreadActivation]| course.last().map(|part| part.done);
            let end = last.as_ref().and_then(|(course, _)| end_of(course));
            if end_of(&started.course) > end {
                last = Some((started.course, seen.thread.tid));
            }
        }
        if let Some((course, thread)) = last {
            cycle.go_on(thread, &course);
        }
        Some(cycle)
    }
}
