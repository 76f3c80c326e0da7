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
//! is another user's, stays: a process of another user can have a reader of its
//! environment wait for ever.

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

/// How long a load may take to end by itself before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// Time for all looks at environments, of which one can make its reader wait.
const STRAYS_LIMIT: Duration = Duration::from_secs(1);
/// Longest environment that is looked at, bytes: Linux starts no program with more.
const MAX_ENVIRONMENT_BYTES: u64 = 6 << 20;

/// What the shell does as [`Guard::kill_strays`] does; its first argument is
/// the mark, its second the users of the load.
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

/// Leads a process group and ends it when this process dies.
#[derive(Debug)]
pub(super) struct Guard {
    /// Not reaped before the group is empty, so the group's number cannot be
    /// given to somebody else's processes.
    shell: Child,
    /// `NAME=value`, in the environment of all that the load starts.
    mark: String,
    /// Users who may have started processes of the load.
    users: Vec<u32>,
}

/// The name of the mark.
const MARK: &str = "LAGGARD_LOAD";

impl Guard {
    /// Starts the shell, the leader of a new process group. `user`: who runs the load, if
    /// it is not this process's user.
    pub(super) fn new(user: Option<u32>) -> io::Result<Self> {
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
        let (mark, users) = (self.mark.clone(), self.users.clone());
        let (sender, receiver) = channel();
        // A thread that a process makes wait is left behind: it can be killed meanwhile,
        // so it does not keep this process from ending.
        let started = std::thread::Builder::new().spawn(move || {
            // Whoever asked may wait no longer.
            let _ = sender.send(kill_marked(&mark, &users));
        });
        started.is_ok() && receiver.recv_timeout(STRAYS_LIMIT).unwrap_or(false)
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

/// Kills the processes of these users that have the mark. Returns whether there was one.
fn kill_marked(mark: &str, users: &[u32]) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut has_killed = false;
    for number in
        numbers.filter(|&number| user_of(number).is_some_and(|user| users.contains(&user)))
    {
        if has_mark(number, mark) {
            // It may have ended.
            has_killed |= kill(Pid::from_raw(number), Signal::SIGKILL).is_ok();
        }
    }
    has_killed
}

/// User who started a process, which it cannot change by itself.
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
    // What was read before it ended counts.
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

    /// Its environment could keep whoever reads it waiting.
    #[test]
    fn process_of_another_user_is_no_stray_whatever_its_environment_has() {
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
