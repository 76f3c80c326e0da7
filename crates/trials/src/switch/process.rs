//! Process that takes part in a ring.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, getppid};

use super::ring::Ring;

/// Process that only takes part in the ring.
#[derive(Debug)]
pub(super) struct Process(Pid);

impl Process {
    /// Waits until it has ended.
    pub(super) fn join(&self) {
        let _ = waitpid(self.0, None);
    }

    /// Ends it.
    pub(super) fn kill(&self) {
        let _ = kill(self.0, Signal::SIGKILL);
        self.join();
    }

    pub(super) fn start(ring: &Ring, own: usize, name: &str) -> io::Result<Self> {
        let parent = nix::unistd::getpid();
        // SAFETY: the child makes the same calls as the measuring threads, and uses memory of the C
        // library, which its `fork` keeps usable. It ends without returning.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok(Self(child)),
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
