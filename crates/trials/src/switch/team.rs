//! Participants: threads of this process, or separate processes.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

#[cfg(target_os = "linux")]
use super::process::Process;
use super::ring::Ring;
use crate::system::policy;
#[cfg(windows)]
use crate::system::process::Process;

/// All participants that were started.
#[derive(Debug, Default)]
pub(super) struct Team {
    threads: Vec<JoinHandle<()>>,
    processes: Vec<Process>,
}

impl Team {
    /// Starts another participant, which does the work of number `own`.
    pub(super) fn start(&mut self, ring: &Arc<Ring>, own: usize, name: &str) -> io::Result<()> {
        if ring.plan.way.are_processes {
            self.processes.push(Process::start(ring, own, name)?);
        } else {
            let ring = Arc::clone(ring);
            let thread = policy::thread(name)?.spawn(move || ring.take_part(own))?;
            self.threads.push(thread);
        }
        Ok(())
    }

    /// Returns the number of participants.
    pub(super) fn len(&self) -> usize {
        self.threads.len() + self.processes.len()
    }

    /// Waits for all participants. On return, each has reported or was stopped.
    pub(super) fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
        self.processes.iter().for_each(Process::join);
    }

    /// Abandons participants that do not end. A thread is left, because nothing can end it.
    pub(super) fn give_up(self) {
        self.processes.iter().for_each(Process::kill);
    }
}
