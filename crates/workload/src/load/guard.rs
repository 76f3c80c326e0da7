//! Guard: ends a load when the program that started it has ended.
//!
//! A load is often a tree of processes, and the program may be killed by a signal that
//! it cannot handle. `PR_SET_PDEATHSIG` reaches only the first process of the tree,
//! fires when the starting *thread* ends, and forces a `fork`, which write-protects the
//! memory of the measuring threads. Therefore a shell leads the load's process group
//! and waits at a pipe whose other end only this process holds. When this process ends
//! in any way, the kernel closes the pipe, and the shell ends the whole group.
//!
//! Processes that left the group (`setsid`) have a mark in their environment, which
//! processes inherit, and are killed too. Processes that also cleared their
//! environment, or belong to another user, survive: a process of another user can block
//! a reader of its environment forever.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getuid};

use super::stopped::killed;

/// Time for a load to end by itself before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// Time for reading all environments, because a process can block its reader.
const STRAYS_LIMIT: Duration = Duration::from_secs(1);
/// Longest environment that is read, bytes: Linux starts no program with more.
const MAX_ENVIRONMENT_BYTES: u64 = 6 << 20;

/// Shell code of [`Guard::kill_strays`]; its arguments are the mark and the users of
/// the load.
const STRAYS: &str = r#"
for process in /proc/[0-9]*; do
    user=
    while read -r key value _; do
        if [ "$key" = Uid: ]; then user=$value; break; fi
    done <"$process/status"
    case " $2 " in *" ${user:-none} "*) ;; *) continue ;; esac
    if tr '\0' '\n' <"$process/environ" 2>/dev/null | grep -qxF "$1"; then
        kill -KILL "${process#/proc/}"
    fi
done 2>/dev/null
"#;

/// Leader of a process group, which ends the group when this process dies.
#[derive(Debug)]
pub struct Guard {
    /// Not reaped before the group is empty, so that the group ID cannot be reused.
    shell: Child,
    /// `NAME=value`, in the environment of all processes of the load.
    mark: String,
    /// Users of the processes of the load.
    users: Vec<u32>,
}

/// Name of the mark.
const MARK: &str = "LAGGARD_LOAD";

impl Guard {
    /// Starts the shell, the leader of a new process group. `user` is the user of the
    /// load if it differs from this process's.
    ///
    /// # Errors
    ///
    /// Returns an error if no shell can be started.
    pub fn new(user: Option<u32>) -> io::Result<Self> {
        static LAUNCHED: AtomicU32 = AtomicU32::new(0);
        let number = LAUNCHED.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{MARK}={}.{number}", std::process::id());
        let script = format!(
            "PATH=/usr/bin:/bin:$PATH; trap '' HUP INT TERM; read -r _; \
             kill -TERM 0; sleep {}; {STRAYS} kill -KILL 0",
            GRACE.as_secs()
        );
        let users: Vec<u32> = user.into_iter().chain([getuid().as_raw()]).collect();
        let shell = Command::new("/bin/sh")
            .args(["-c", &script, "laggard-load-guard", &mark])
            .arg(
                users
                    .iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .join(" "),
            )
            .env_remove(MARK)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { shell, mark, users })
    }

    /// Returns the mark of the load's processes, `NAME=value` of their environment.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Marks a command as the load's.
    pub(super) fn put_mark(&self, command: &mut Command) {
        if let Some((name, value)) = self.mark.split_once('=') {
            command.env(name, value);
        }
    }

    /// Kills processes that left the group. Returns whether there were any.
    pub(super) fn kill_strays(&self) -> bool {
        let (mark, users) = (self.mark.clone(), self.users.clone());
        let (sender, receiver) = channel();
        // A thread that a process blocks is abandoned: it can be killed at any time, so
        // it does not keep this process from ending.
        let started = std::thread::Builder::new().spawn(move || {
            // The caller may have stopped waiting.
            let _ = sender.send(kill_marked(&mark, &users));
        });
        started.is_ok() && receiver.recv_timeout(STRAYS_LIMIT).unwrap_or(false)
    }

    /// Returns the process group, for `CommandExt::process_group`.
    #[must_use]
    pub fn group(&self) -> i32 {
        self.shell.id().cast_signed()
    }

    /// Sends `signal` to every process of the group.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(killpg(Pid::from_raw(self.group()), signal)?)
    }

    /// Kills the rest of the group and waits for the shell's end.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses.
    pub fn end(&mut self) -> io::Result<()> {
        self.signal(Signal::SIGKILL)?;
        killed(&mut self.shell).map(|_| ())
    }

    /// Returns whether the group is empty. Only after [`Guard::end`]: until then it
    /// contains at least the shell.
    pub(super) fn is_empty(&self) -> bool {
        killpg(Pid::from_raw(self.group()), None) == Err(Errno::ESRCH)
    }
}

/// Kills the processes of these users that have the mark. Returns whether there were
/// any.
fn kill_marked(mark: &str, users: &[u32]) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut has_killed = false;
    for number in
        numbers.filter(|&number| user_of(number).is_some_and(|user| users.contains(&user)))
    {
        if has_mark(number, mark) {
            // The process may have ended.
            has_killed |= kill(Pid::from_raw(number), Signal::SIGKILL).is_ok();
        }
    }
    has_killed
}

/// Returns the user who started a process, which the process cannot change.
fn user_of(process: i32) -> Option<u32> {
    let status = fs::read(format!("/proc/{process}/status")).ok()?;
    // The name of a process need not be UTF-8.
    let status = String::from_utf8_lossy(&status);
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().next()?.parse().ok()
}

fn has_mark(process: i32, mark: &str) -> bool {
    let Ok(file) = fs::File::open(format!("/proc/{process}/environ")) else {
        return false;
    };
    let mut environment = Vec::new();
    // Use the part that was read before it ended.
    let _ = file
        .take(MAX_ENVIRONMENT_BYTES)
        .read_to_end(&mut environment);
    let mut entries = environment.split(|&byte| byte == 0);
    entries.any(|entry| entry == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A limit against hanging, not an expectation.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// Its environment could block a reader.
    #[test]
    fn process_of_another_user_is_no_stray_with_any_environment() {
        if !getuid().is_root() {
            return println!("skipped: only root starts processes of other users");
        }
        let mut theirs = Guard::new(Some(65534)).unwrap();
        let mut own = Guard::new(None).unwrap();
        own.mark = theirs.mark.clone();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.args(["sleep", "100"]);
        theirs.put_mark(&mut command);
        let mut child = command.spawn().unwrap();
        let number = child.id().cast_signed();
        let begun = Instant::now();
        while user_of(number) != Some(65534) || !has_mark(number, &theirs.mark) {
            assert!(begun.elapsed() < DEADLINE, "it does not start");
        }

        let by_root = own.kill_strays();
        let is_alive = child.try_wait().unwrap().is_none();
        let by_user = theirs.kill_strays();

        assert!(!by_root && is_alive);
        assert!(by_user);
        child.wait().unwrap();
        theirs.end().unwrap();
        own.end().unwrap();
    }
}
