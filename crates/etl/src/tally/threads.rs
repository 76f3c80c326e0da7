//! Threads: how long each that was ready waited for a CPU, and for pages.

use std::collections::{BTreeMap, HashMap};

use laggard_model::{Histogram, Nanos};

use crate::kernel::{ProcessNote, ThreadNote};

/// Most threads that are told apart, and most processes whose names are kept.
const MOST_THREADS: usize = 16_384;
const MOST_PROCESSES: usize = 65_536;
/// Most threads that are there at a time and whose process is kept.
const MOST_NOTED: usize = 65_536;
/// Most threads that can be ready at a time.
const MOST_READY: usize = 65_536;
/// Longest name that is kept, characters.
const LONGEST: usize = 260;

/// What is told of one thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadTally {
    /// Its number; numbers of threads that ended are given anew.
    pub id: u32,
    /// The number of its process, where the trace says so.
    pub process: Option<u32>,
    /// Its process' name, where the trace says so.
    pub name: Option<String>,
    /// From when it was made ready, or another thread took its CPU, until it ran.
    pub ready: Histogram,
    /// Its lowest and highest priority when it then ran.
    pub priorities: Option<(u8, u8)>,
    /// How long it waited for pages from a disk.
    pub faults: Histogram,
}

/// A wait for a CPU that has not ended.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// When it began, in ticks.
    since: i64,
    /// Whether another thread took the CPU; otherwise it was made ready.
    is_preempted: bool,
}

/// A wait for a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedWait {
    /// When it began, in ticks.
    pub(super) since: i64,
    pub(super) took: Nanos,
}

/// What is told of all threads.
#[derive(Debug, Default)]
pub struct ThreadTallies {
    threads: Vec<ThreadTally>,
    current: HashMap<u32, usize>,
    /// The process of each thread that has no place among `threads` yet.
    processes: HashMap<u32, u32>,
    names: HashMap<u32, String>,
    waiting: HashMap<u32, Wait>,
    /// From ready to run by the priority with which a thread then ran.
    pub by_priority: BTreeMap<u8, Histogram>,
    /// Times of threads beyond those that are told apart.
    pub crowded: u64,
    /// Switches from one thread to another or to none.
    pub switches: u64,
    /// How often a thread was made ready.
    pub readied: u64,
    /// Waits that began when another thread took the CPU, of those that ended.
    pub preempted: u64,
    /// How often a thread ran of which neither is seen: that it was made ready, or that
    /// another took its CPU.
    pub resumed: u64,
    /// How often a thread was made ready while it ran, or again before it ran,
    /// so that nothing is known of its wait.
    pub unclear: u64,
}

impl ThreadTallies {
    /// Every thread of which something is known, in no order.
    pub fn threads(&self) -> impl Iterator<Item = ThreadTally> + '_ {
        self.threads.iter().map(|thread| ThreadTally {
            name: thread.name.clone().or_else(|| self.name(thread.process)),
            ..thread.clone()
        })
    }

    /// How many threads were still ready and not run at the end.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn name(&self, process: Option<u32>) -> Option<String> {
        self.names.get(&process?).cloned()
    }

    pub(super) fn is_process(&mut self, process: &ProcessNote) {
        if self.names.len() < MOST_PROCESSES || self.names.contains_key(&process.id) {
            let name = process.name.chars().take(LONGEST).collect();
            self.names.insert(process.id, name);
        }
    }

    pub(super) fn is_thread(&mut self, thread: ThreadNote, is_new: bool) {
        if is_new {
            self.forget(thread.id);
        }
        // A thread of which nothing else is told takes no place.
        if let Some(place) = self.current.get(&thread.id) {
            self.threads[*place].process.get_or_insert(thread.process);
        } else if self.processes.len() < MOST_NOTED {
            self.processes.insert(thread.id, thread.process);
        }
    }

    pub(super) fn ended(&mut self, thread: ThreadNote) {
        self.is_thread(thread, false);
        self.forget(thread.id);
    }

    /// Its number may be another's from now on, and its process' too.
    fn forget(&mut self, thread: u32) {
        self.waiting.remove(&thread);
        self.processes.remove(&thread);
        if let Some(place) = self.current.remove(&thread) {
            let name = self.name(self.threads[place].process);
            self.threads[place].name = name;
        }
    }

    pub(super) fn became_ready(&mut self, thread: u32, ticks: i64) {
        self.readied += 1;
        if self
            .waiting
            .get(&thread)
            .is_some_and(|wait| wait.is_preempted)
        {
            // It could run since it lost its CPU.
            return;
        }
        if self.waiting.contains_key(&thread) {
            // The first time is when it could have run.
            self.unclear += 1;
            return;
        }
        self.wait(thread, ticks, false);
    }

    fn wait(&mut self, thread: u32, since: i64, is_preempted: bool) {
        if self.waiting.len() >= MOST_READY {
            self.unclear += 1;
            return;
        }
        let wait = Wait {
            since,
            is_preempted,
        };
        self.waiting.insert(thread, wait);
    }

    /// How long `to` waited for a CPU before it ran, where that is known. `preempts`:
    /// `from` could have gone on, and waits from now on.
    pub(super) fn switched(
        &mut self,
        (from, preempts): (u32, bool),
        (to, priority): (u32, u8),
        ticks: i64,
        between: impl Fn(i64, i64) -> Option<Nanos>,
    ) -> Option<EndedWait> {
        self.switches += 1;
        // It was made ready while it still ran. Unless it could go on then, its wait
        // began at no known time.
        let was_ready = self.waiting.remove(&from).is_some();
        if preempts && from != 0 && from != to {
            self.wait(from, ticks, true);
        } else if was_ready {
            self.unclear += 1;
        }
        // Thread 0 of each CPU runs when nobody else does.
        if to == 0 {
            return None;
        }
        let Some(wait) = self.waiting.remove(&to) else {
            self.resumed += 1;
            return None;
        };
        let Some(took) = between(wait.since, ticks) else {
            self.unclear += 1;
            return None;
        };
        self.preempted += u64::from(wait.is_preempted);
        self.by_priority.entry(priority).or_default().add(took);
        match self.entry(to) {
            Some(thread) => {
                thread.ready.add(took);
                let (low, high) = thread.priorities.unwrap_or((priority, priority));
                thread.priorities = Some((low.min(priority), high.max(priority)));
            }
            None => self.crowded += 1,
        }
        Some(EndedWait {
            since: wait.since,
            took,
        })
    }

    pub(super) fn faulted(&mut self, thread: u32, took: Nanos) {
        match self.entry(thread) {
            Some(thread) => thread.faults.add(took),
            None => self.crowded += 1,
        }
    }

    fn entry(&mut self, thread: u32) -> Option<&mut ThreadTally> {
        if let Some(place) = self.current.get(&thread) {
            return self.threads.get_mut(*place);
        }
        if self.threads.len() >= MOST_THREADS {
            return None;
        }
        self.current.insert(thread, self.threads.len());
        self.threads.push(ThreadTally {
            id: thread,
            process: self.processes.remove(&thread),
            ..ThreadTally::default()
        });
        self.threads.last_mut()
    }
}
