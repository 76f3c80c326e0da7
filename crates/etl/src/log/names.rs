//! By which name a thread is told: that of its process' image.

use std::collections::{BTreeSet, HashMap};

use laggard_model::Tid;

use crate::kernel::{ProcessNote, ThreadNote};

/// Most threads and processes that are kept at a time.
const MOST: usize = 65_536;
/// Longest name that is kept, characters.
const LONGEST: usize = 64;

/// The processes of threads, and their names.
#[derive(Debug, Default)]
pub(super) struct ThreadNames {
    processes: HashMap<u32, u32>,
    names: HashMap<u32, String>,
}

impl ThreadNames {
    /// A process is there.
    pub(super) fn is_process(&mut self, process: ProcessNote) {
        if self.names.len() < MOST || self.names.contains_key(&process.id) {
            let name = process.name.chars().take(LONGEST).collect();
            self.names.insert(process.id, name);
        }
    }

    /// A thread is there. Its number may have been another's.
    pub(super) fn is_thread(&mut self, thread: ThreadNote) {
        if self.processes.len() < MOST || self.processes.contains_key(&thread.id) {
            self.processes.insert(thread.id, thread.process);
        }
    }

    /// A thread ended. What it did is told by its name for as long as nobody else has its
    /// number; where there is no more room, no longer.
    pub(super) fn ended(&mut self, thread: ThreadNote) {
        if self.processes.len() >= MOST / 2 {
            self.processes.remove(&thread.id);
        }
    }

    /// The name of a thread; of one of which nothing is known, its number.
    pub(super) fn of(&self, thread: u32) -> String {
        if thread == 0 {
            return "Idle".into();
        }
        let process = self.processes.get(&thread);
        let name = process.and_then(|process| self.names.get(process));
        name.cloned().unwrap_or_else(|| format!("thread {thread}"))
    }

    pub(super) fn process_of(&self, thread: u32) -> Option<u32> {
        self.processes.get(&thread).copied()
    }

    pub(super) fn threads_of(&self, process: u32) -> BTreeSet<Tid> {
        let all = self.processes.iter();
        let its = all.filter(|(_, its)| **its == process);
        its.map(|(thread, _)| Tid(*thread)).collect()
    }
}
