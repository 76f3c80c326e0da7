//! The guard: ends a load when the program that started it is gone.
//!
//! A load is often a tree of processes, and the program may be killed by a
//! signal that it cannot handle. `PR_SET_PDEATHSIG` reaches only the first
//! process of the tree, fires when the starting *thread* ends, and forces a
//! `fork`, which write-protects the memory of the measuring threads. So a
//! shell leads the load's process group and waits at a pipe whose other end
//! only we hold: when we are gone, however that came, the kernel closes the
//! pipe and the shell ends the whole group.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How long a load may take to end by itself before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// Leads a process group and ends it when this process dies.
#[derive(Debug)]
pub(super) struct Guard {
    /// Not reaped before the group is empty, so the group's number cannot be
    /// given to somebody else's processes.
    shell: Child,
}

impl Guard {
    /// Starts the shell, the leader of a new process group.
    pub(super) fn new() -> io::Result<Self> {
        let script = format!(
            "trap '' HUP INT TERM; read -r _; kill -TERM 0; sleep {}; kill -KILL 0",
            GRACE.as_secs()
        );
        let shell = Command::new("/bin/sh")
            .args(["-c", &script, "laggard-load-guard"])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { shell })
    }

    /// The process group, for [`CommandExt::process_group`].
    pub(super) fn group(&self) -> i32 {
        self.shell.id().cast_signed()
    }

    /// Sends `signal` to every process of the group.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(killpg(Pid::from_raw(self.group()), signal)?)
    }

    /// Kills what is left of the group, and waits for the shell's end.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.shell.wait()?;
        Ok(())
    }

    /// Whether no process of the group is left. Only after [`Guard::end`]:
    /// until then there is at least the shell.
    pub(super) fn is_empty(&self) -> bool {
        killpg(Pid::from_raw(self.group()), None) == Err(Errno::ESRCH)
    }
}
