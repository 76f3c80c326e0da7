//! The way of a thread that measures: from its timer to the CPU.

use std::collections::{HashMap, VecDeque};

use laggard_model::{Nanos, Tid};

/// Most instants that are kept of a thread: more than it can have before it is asked for.
const MOST: usize = 1 << 16;

/// When a thread could run, and when it did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Way {
    /// It was made ready, by code on this CPU.
    pub ready: Option<(Nanos, u16)>,
    /// It was switched in.
    pub ran: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ready(u16),
    Ran,
}

/// The newest instants of each thread that is watched.
#[derive(Debug, Default)]
pub(super) struct Ways {
    threads: HashMap<u32, VecDeque<(Nanos, Step)>>,
}

impl Ways {
    pub(super) fn watch(&mut self, threads: impl IntoIterator<Item = Tid>) {
        for thread in threads {
            self.threads.entry(thread.0).or_default();
        }
    }

    pub(super) fn ready(&mut self, thread: u32, at: Nanos, cpu: u16) {
        self.add(thread, at, Step::Ready(cpu));
    }

    pub(super) fn ran(&mut self, thread: u32, at: Nanos) {
        self.add(thread, at, Step::Ran);
    }

    fn add(&mut self, thread: u32, at: Nanos, step: Step) {
        let Some(steps) = self.threads.get_mut(&thread) else {
            return;
        };
        if steps.len() >= MOST {
            steps.pop_front();
        }
        let place = steps.partition_point(|(before, _)| *before <= at);
        steps.insert(place, (at, step));
    }

    /// The first time from `from` to `to` that the thread was made ready, and that it was
    /// switched in; what was before is forgotten, but that it could run as that began: a
    /// timer can be early. Without the switch, what made it ready may be of what came after.
    pub(super) fn way(&mut self, thread: Tid, from: Nanos, to: Nanos) -> Way {
        let Some(steps) = self.threads.get_mut(&thread.0) else {
            return Way::default();
        };
        let mut early = None;
        while let Some((_, step)) = steps.pop_front_if(|(at, _)| *at < from) {
            early = match step {
                Step::Ready(cpu) => Some((from, cpu)),
                Step::Ran => None,
            };
        }
        let within = || steps.iter().take_while(|(at, _)| *at <= to);
        let later = within().find_map(|(at, step)| match step {
            Step::Ready(cpu) => Some((*at, *cpu)),
            Step::Ran => None,
        });
        let ready = early.or(later);
        let mut ran = within().filter(|(_, step)| matches!(step, Step::Ran));
        let ran = ran.next().map(|(at, _)| *at);
        Way {
            ready: ready.filter(|(ready, _)| ran.is_some_and(|ran| *ready <= ran)),
            ran,
        }
    }
}
