//! Statistics of threads: waits of ready threads for a CPU, and waits for pages.

use std::collections::{BTreeMap, HashMap};

use laggard_model::{Histogram, Nanos};

use crate::kernel::{ProcessNote, ThreadNote};

/// Maximum number of separate threads, and of processes with names.
const MAX_THREADS: usize = 16_384;
const MOST_PROCESSES: usize = 65_536;
/// Maximum number of simultaneous threads with known processes.
const MAX_NOTED: usize = 65_536;
/// Maximum number of threads that are ready at the same time.
const MAX_READY: usize = 65_536;
/// Maximum length of a name, characters.
const MAX_NAME_CHARS: usize = 260;

/// Statistics of a thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadTally {
    /// Thread ID; IDs of ended threads are reused.
    pub id: u32,
    /// Process ID, if the trace has it.
    pub process: Option<u32>,
    /// Name of its process, if the trace has it.
    pub name: Option<String>,
    /// Waits from the time it was made ready or preempted until it ran.
    pub ready: Histogram,
    /// Lowest and highest priority when it then ran.
    pub priorities: Option<(u8, u8)>,
    /// Waits for pages from a disk.
    pub faults: Histogram,
}

/// Wait for a CPU that has not ended.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Start, ticks.
    since: i64,
    /// Whether another thread preempted it; otherwise it was made ready.
    is_preempted: bool,
}

/// Ended wait for a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedWait {
    /// Start, ticks.
    pub(super) since: i64,
    pub(super) took: Nanos,
}

/// Statistics of all threads.
#[derive(Debug, Default)]
pub struct ThreadTallies {
    threads: Vec<ThreadTally>,
    current: HashMap<u32, usize>,
    /// Process of each thread that is not yet in `threads`.
    processes: HashMap<u32, u32>,
    names: HashMap<u32, String>,
    waiting: HashMap<u32, Wait>,
    /// Waits per priority of the thread when it ran.
    pub by_priority: BTreeMap<u8, Histogram>,
    /// Number of waits of threads beyond the separate ones.
    pub crowded: u64,
    /// Number of context switches.
    pub switches: u64,
    /// Number of times that a thread was made ready.
    pub readied: u64,
    /// Number of ended waits that started with a preemption.
    pub preempted: u64,
    /// Number of times that a thread ran without a recorded start of its wait.
    pub resumed: u64,
    /// Number of times that a thread was made ready while it ran, or twice before it
    /// ran, so that its wait is unknown.
    pub unclear: u64,
}

impl ThreadTallies {
    /// Returns the statistics of every thread, unordered.
    pub fn threads(&self) -> impl Iterator<Item = ThreadTally> + '_ {
        self.threads.iter().map(|thread| ThreadTally {
            name: thread.name.clone().or_else(|| self.name(thread.process)),
            ..thread.clone()
        })
    }

    /// Returns the number of threads that were ready and had not run at the end.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn name(&self, process: Option<u32>) -> Option<String> {
        self.names.get(&process?).cloned()
    }

    pub(super) fn is_process(&mut self, process: &ProcessNote) {
        if self.names.len() < MOST_PROCESSES || self.names.contains_key(&process.id) {
            let name = process.name.chars().take(MAX_NAME_CHARS).collect();
            self.names.insert(process.id, name);
        }
    }

    pub(super) fn is_thread(&mut self, thread: ThreadNote, is_new: bool) {
        if is_new {
            self.forget(thread.id);
        }
        // A thread without other events does not take memory.
        if let Some(place) = self.current.get(&thread.id) {
            self.threads[*place].process.get_or_insert(thread.process);
        } else if self.processes.len() < MAX_NOTED {
            self.processes.insert(thread.id, thread.process);
        }
    }

    pub(super) fn ended(&mut self, thread: ThreadNote) {
        self.is_thread(thread, false);
        self.forget(thread.id);
    }

    /// The thread and process IDs may be reused from now.
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
            // A preempted thread has been ready since then.
            return;
        }
        if self.waiting.contains_key(&thread) {
            // The first time when the thread could run counts.
            self.unclear += 1;
            return;
        }
        self.wait(thread, ticks, false);
    }

    fn wait(&mut self, thread: u32, since: i64, is_preempted: bool) {
        if self.waiting.len() >= MAX_READY {
            self.unclear += 1;
            return;
        }
        let wait = Wait {
            since,
            is_preempted,
        };
        self.waiting.insert(thread, wait);
    }

    /// Ends the wait of `to` and returns it, if its start is known. If `preempts`,
    /// `from` could have continued and waits from now.
    pub(super) fn switched(
        &mut self,
        (from, preempts): (u32, bool),
        (to, priority): (u32, u8),
        ticks: i64,
        between: impl Fn(i64, i64) -> Option<Nanos>,
    ) -> Option<EndedWait> {
        self.switches += 1;
        // It was made ready while it still ran. Unless it can continue, its wait starts
        // at an unknown time.
        let was_ready = self.waiting.remove(&from).is_some();
        if preempts && from != 0 && from != to {
            self.wait(from, ticks, true);
        } else if was_ready {
            self.unclear += 1;
        }
        // Thread 0 of each CPU is the idle thread.
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
        if self.threads.len() >= MAX_THREADS {
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
