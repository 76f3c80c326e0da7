//! Participants: threads of this process, or separate processes.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, getppid};

use super::ring::Ring;
use laggard_measure::linux::policy;

/// All participants that were started.
#[derive(Debug, Default)]
pub(super) struct Team {
    threads: Vec<JoinHandle<()>>,
    processes: Vec<Pid>,
}

impl Team {
    /// Starts another participant, which does the work of number `own`.
    pub(super) fn start(&mut self, ring: &Arc<Ring>, own: usize, name: &str) -> io::Result<()> {
        if ring.plan.way.are_processes {
            self.processes.push(process(ring, own, name)?)
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
        for &process in &self.processes {
            let _ = waitpid(process, None);
        }
    }

    /// Abandons participants that do not end. A thread is left, because nothing can end it.
    pub(super) fn give_up(self) {
        for &process in &self.processes {
            let _ = kill(process, Signal::SIGKILL);
            let _ = waitpid(process, None);
        }
    }
}

/// Starts a process that only takes part in the ring.
fn process(ring: &Ring, own: usize, name: &str) -> io::Result<Pid> {
    let parent = nix::unistd::getpid();
    // SAFETY: the child makes the same calls as the measuring threads, and uses memory of the C
    // library, which its `fork` keeps usable. It ends without returning.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            let part = AssertUnwindSafe(|| {
                let is_ours = ends_with(parent, name);
                ring.take_part_as_process(own, is_ours);
            });
            let code = i32::from(catch_unwind(part).is_err());
            // SAFETY: the arguments are integers; files of the parent are neither closed nor
            // written.
            unsafe { libc::_exit(code) }
        }
    }
}

/// Makes the calling process end with its parent, and sets its name.
fn ends_with(parent: Pid, name: &str) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    let name = std::ffi::CString::new(name)?;
    Ok(nix::sys::prctl::set_name(&name)?)
}
