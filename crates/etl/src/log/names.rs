//! Names of threads: the image names of their processes.

use std::collections::{BTreeSet, HashMap};

use laggard_model::Tid;

use crate::kernel::{ProcessNote, ThreadNote};

/// Maximum number of threads and processes.
const MAX_THREADS: usize = 65_536;
/// Maximum length of a name, characters.
const MAX_NAME_CHARS: usize = 64;

/// Processes of threads, and their names.
#[derive(Debug, Default)]
pub(super) struct ThreadNames {
    processes: HashMap<u32, u32>,
    names: HashMap<u32, String>,
}

impl ThreadNames {
    /// Adds a process.
    pub(super) fn is_process(&mut self, process: ProcessNote) {
        if self.names.len() < MAX_THREADS || self.names.contains_key(&process.id) {
            let name = process.name.chars().take(MAX_NAME_CHARS).collect();
            self.names.insert(process.id, name);
        }
    }

    /// Adds a thread. Its ID may have belonged to another one.
    pub(super) fn is_thread(&mut self, thread: ThreadNote) {
        if self.processes.len() < MAX_THREADS || self.processes.contains_key(&thread.id) {
            self.processes.insert(thread.id, thread.process);
        }
    }

    /// Marks a thread as ended. Its name stays until its ID is reused, if there is
    /// room.
    pub(super) fn ended(&mut self, thread: ThreadNote) {
        if self.processes.len() >= MAX_THREADS / 2 {
            self.processes.remove(&thread.id);
        }
    }

    /// Returns the name of a thread, or its ID if it is unknown.
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
        let processes = self.processes.iter();
        let its = processes.filter(|(_, its)| **its == process);
        its.map(|(thread, _)| Tid(*thread)).collect()
    }
}
