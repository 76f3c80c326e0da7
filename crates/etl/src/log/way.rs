//! Wakeups of the measuring threads: from the timer to the CPU.

use std::collections::{HashMap, VecDeque};

use laggard_model::{Nanos, Tid};

/// Maximum number of times that are kept per thread between two queries.
const MAX_TIMES: usize = 1 << 16;

/// Ready time and run time of a thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Way {
    /// Time, and CPU whose code made it ready.
    pub ready: Option<(Nanos, u16)>,
    /// Time of the switch to it.
    pub ran: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ready(u16),
    Ran,
}

/// Newest times of each watched thread.
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

    pub(super) fn ready(&mut self, thread: u32, time: Nanos, cpu: u16) {
        self.add(thread, time, Step::Ready(cpu));
    }

    pub(super) fn ran(&mut self, thread: u32, time: Nanos) {
        self.add(thread, time, Step::Ran);
    }

    fn add(&mut self, thread: u32, time: Nanos, step: Step) {
        let Some(steps) = self.threads.get_mut(&thread) else {
            return;
        };
        if steps.len() >= MAX_TIMES {
            steps.pop_front();
        }
        let place = steps.partition_point(|(before, _)| *before <= time);
        steps.insert(place, (time, step));
    }

    /// Returns the first times between `from` and `to` when the thread was made ready and switched
    /// in, and drops earlier times. A thread that was ready at `from` counts, because a timer can
    /// be early. Without the switch, the ready time may belong to the next wait.
    pub(super) fn way(&mut self, thread: Tid, from: Nanos, to: Nanos) -> Way {
        let Some(steps) = self.threads.get_mut(&thread.0) else {
            return Way::default();
        };
        let mut early = None;
        while let Some((_, step)) = steps.pop_front_if(|(time, _)| *time < from) {
            early = match step {
                Step::Ready(cpu) => Some((from, cpu)),
                Step::Ran => None,
            };
        }
        let within = || steps.iter().take_while(|(time, _)| *time <= to);
        let later = within().find_map(|(time, step)| match step {
            Step::Ready(cpu) => Some((*time, *cpu)),
            Step::Ran => None,
        });
        let ready = early.or(later);
        let mut ran = within().filter(|(_, step)| matches!(step, Step::Ran));
        let ran = ran.next().map(|(time, _)| *time);
        Way {
            ready: ready.filter(|(ready, _)| ran.is_some_and(|ran| *ready <= ran)),
            ran,
        }
    }
}
