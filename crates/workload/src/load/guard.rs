//! The guard: ends a load when the program that started it is gone.
//!
//! A load is often a tree of processes, and the program may be killed by a
//! signal that it cannot handle. `PR_SET_PDEATHSIG` reaches only the first
//! process of the tree, fires when the starting *thread* ends, and forces a
//! `fork`, which write-protects the memory of the measuring threads. So a
//! shell leads the load's process group and waits at a pipe whose other end
//! only we hold: when we are gone, however that came, the kernel closes the
//! pipe and the shell ends the whole group.
//!
//! What left the group (`setsid`) is known by a mark in its environment, which
//! processes inherit, and is killed too. What also cleared its environment, or
//! is another user's, stays.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::stopped::killed;

/// How long a load may take to end by itself before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// What the shell does as [`Guard::kill_strays`] does; its first argument is
/// the mark.
const STRAYS: &str = r#"
for environ in /proc/[0-9]*/environ; do
    if tr '\0' '\n' <"$environ" 2>/dev/null | grep -qxF "$1"; then
        process=${environ#/proc/}
        kill -KILL "${process%/environ}"
    fi
done 2>/dev/null
"#;

/// Leads a process group and ends it when this process dies.
#[derive(Debug)]
pub(super) struct Guard {
    /// Not reaped before the group is empty, so the group's number cannot be
    /// given to somebody else's processes.
    shell: Child,
    /// `NAME=value`, in the environment of all that the load starts.
    mark: String,
}

/// The name of the mark.
const MARK: &str = "LAGGARD_LOAD";

impl Guard {
    /// Starts the shell, the leader of a new process group.
    pub(super) fn new() -> io::Result<Self> {
        static LAUNCHED: AtomicU32 = AtomicU32::new(0);
        let number = LAUNCHED.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{MARK}={}.{number}", std::process::id());
        let script = format!(
            "PATH=/usr/bin:/bin:$PATH; trap '' HUP INT TERM; read -r _; \
             kill -TERM 0; sleep {}; {STRAYS} kill -KILL 0",
            GRACE.as_secs()
        );
        let shell = Command::new("/bin/sh")
            .args(["-c", &script, "laggard-load-guard", &mark])
            .env_remove(MARK)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { shell, mark })
    }

    /// What marks a process as the load's, `NAME=value` of its environment.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Marks a command as the load's.
    pub(super) fn put_mark(&self, command: &mut Command) {
        if let Some((name, value)) = self.mark.split_once('=') {
            command.env(name, value);
        }
    }

    /// Kills what left the group. Whether anything was there.
    pub(super) fn kill_strays(&self) -> bool {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut found = false;
        for number in numbers {
            let Ok(environment) = fs::read(format!("/proc/{number}/environ")) else {
                continue;
            };
            let mut entries = environment.split(|&byte| byte == 0);
            if entries.any(|entry| entry == self.mark.as_bytes()) {
                // It may have ended meanwhile.
                found |= kill(Pid::from_raw(number), Signal::SIGKILL).is_ok();
            }
        }
        found
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
        killed(&mut self.shell).map(|_| ())
    }

    /// Whether no process of the group is left. Only after [`Guard::end`]:
    /// until then there is at least the shell.
    pub(super) fn is_empty(&self) -> bool {
        killpg(Pid::from_raw(self.group()), None) == Err(Errno::ESRCH)
    }
}
