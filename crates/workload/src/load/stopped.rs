//! Detection of a stopped process: by a signal, or frozen with its control group. It
//! then does no work, and has not ended.

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// Mount points of control groups of version 2: alone, or next to version 1.
const UNIFIED: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Mount point of the freezer of version 1.
const FREEZER: &str = "/sys/fs/cgroup/freezer";

/// State of a load: running, or stopped by a signal, or frozen with its control group.
/// A stopped load has not ended and does no work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Halt {
    /// Running now and since the previous check. A freeze between two checks is not
    /// detected.
    No,
    /// Running now, but stopped and continued by a signal since the previous check.
    Meanwhile,
    /// Stopped now.
    Now,
}

/// Returns whether our child `id` is stopped, or was stopped by a signal since the
/// previous call. The call consumes the kernel's record of that.
pub(super) fn halt(id: u32) -> Halt {
    let was_stopped = took_stop(id);
    match (is_stopped(id), was_stopped) {
        (true, _) => Halt::Now,
        (false, true) => Halt::Meanwhile,
        (false, false) => Halt::No,
    }
}

/// Consumes the kernel's records of our child's stops. Returns whether there was one.
/// The kernel does not report SIGCONT without a stop (`wait(2)`, `WCONTINUED`).
fn took_stop(id: u32) -> bool {
    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WCONTINUED | WaitPidFlag::WNOHANG;
    let mut has_stopped = false;
    // A stop and its end. The next call gets any further ones.
    for _ in 0..2 {
        match waitid(Id::Pid(Pid::from_raw(id.cast_signed())), flags) {
            Ok(WaitStatus::Stopped(..) | WaitStatus::Continued(_)) => has_stopped = true,
            Ok(_) | Err(_) => break,
        }
    }
    has_stopped
}

/// Returns whether process `id` is stopped. False if it has ended or its state cannot
/// be read.
pub(super) fn is_stopped(id: u32) -> bool {
    // Names of processes and groups need not be UTF-8.
    let read = |name: &str| {
        let text = fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    };
    has_stopped_state(&read("stat")) || is_frozen(&read("cgroup"))
}

/// Waits for the end of a child after SIGKILL and returns its status. A child that is
/// frozen with its control group of version 1 ends only when the group is thawed, which
/// may be never. The wait for it has a limit; the child ends when it is thawed.
pub(super) fn killed(child: &mut Child) -> io::Result<ExitStatus> {
    const POLL: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(2);
    let deadline = Instant::now() + LONG;
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None if Instant::now() >= deadline && is_stopped(child.id()) => {
                return Ok(ExitStatus::from_raw(Signal::SIGKILL as i32));
            }
            None => thread::sleep(POLL),
        }
    }
}

/// Returns whether `/proc/PID/stat` shows a process that a signal stopped. A process
/// that a debugger holds does not count: it is held at each system call.
fn has_stopped_state(stat: &str) -> bool {
    // A name can contain any character, including brackets and spaces.
    let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
    after.starts_with('T')
}

/// Returns whether one of the control groups of `/proc/PID/cgroup` is frozen.
fn is_frozen(groups: &str) -> bool {
    groups.lines().any(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            return false;
        };
        match controllers {
            "" => UNIFIED.iter().any(|root| {
                let text = fs::read_to_string(within(root, path).join("cgroup.events"));
                text.is_ok_and(|events| events.lines().any(|line| line == "frozen 1"))
            }),
            "freezer" => {
                let state = fs::read_to_string(within(FREEZER, path).join("freezer.state"));
                state.is_ok_and(|state| state.trim() == "FROZEN")
            }
            _ => false,
        }
    })
}

fn within(root: &str, path: &str) -> PathBuf {
    Path::new(root).join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sys::signal::kill;

    use super::*;

    /// A limit against hanging, not an expectation.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// Process that ends with this value, also if a test fails.
    struct Sleeper(Child);

    impl Sleeper {
        fn start() -> Self {
            Self(Command::new("sleep").arg("100").spawn().unwrap())
        }

        fn is_stopped_after(&self, signal: Signal, wanted: bool) -> bool {
            let id = self.0.id();
            kill(Pid::from_raw(id.try_into().unwrap()), signal).unwrap();
            becomes(|| is_stopped(id) == wanted)
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn becomes(is_so: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        while !is_so() {
            if begun.elapsed() > DEADLINE {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }

    #[test]
    fn process_is_stopped_from_sigstop_to_sigcont() {
        let sleeper = Sleeper::start();

        assert!(!is_stopped(sleeper.0.id()));
        assert!(sleeper.is_stopped_after(Signal::SIGSTOP, true));
        assert!(sleeper.is_stopped_after(Signal::SIGCONT, false));
    }

    #[test]
    fn stop_that_is_over_is_reported_once() {
        let sleeper = Sleeper::start();
        let id = sleeper.0.id();
        let cont = |wanted| sleeper.is_stopped_after(Signal::SIGCONT, wanted);

        assert!(cont(false));
        assert_eq!(halt(id), Halt::No, "nothing was stopped");
        for _ in 0..3 {
            assert!(sleeper.is_stopped_after(Signal::SIGSTOP, true));
            assert!(cont(false));
        }
        assert_eq!(halt(id), Halt::Meanwhile);
        assert_eq!(halt(id), Halt::No);
        assert!(sleeper.is_stopped_after(Signal::SIGSTOP, true));
        assert_eq!((halt(id), halt(id)), (Halt::Now, Halt::Now));
        assert!(cont(false));
        assert_eq!((halt(id), halt(id)), (Halt::Meanwhile, Halt::No));
    }

    #[test]
    fn name_that_looks_like_a_state_is_ignored() {
        assert!(has_stopped_state("7 (a) T) T 1 7"));
        assert!(!has_stopped_state("7 (a) T 1) S 1 7"));
        assert!(!has_stopped_state("7 (held by gdb) t 1 7"));
        assert!(!has_stopped_state(""));
    }

    #[test]
    fn frozen_process_is_stopped_and_not_waited_for_forever() {
        let name = format!("laggard-test-{}", std::process::id());
        let version_1 = Path::new(FREEZER).join(&name);
        let version_2 = Path::new(UNIFIED[0]).join(&name);
        let is_1 = Path::new(FREEZER).is_dir();
        let (dir, file, frozen, thawed) = if is_1 {
            (version_1, "freezer.state", "FROZEN", "THAWED")
        } else {
            (version_2, "cgroup.freeze", "1", "0")
        };
        if let Err(err) = fs::create_dir(&dir) {
            eprintln!("skipped: no control group can be made: {err}");
            return;
        }
        let mut sleeper = Sleeper::start();
        let id = sleeper.0.id();
        let moved = fs::write(dir.join("cgroup.procs"), id.to_string());

        let outcome = moved.and_then(|()| {
            fs::write(dir.join(file), frozen)?;
            let is_so = becomes(|| is_stopped(id));
            sleeper.0.kill()?;
            let how = killed(&mut sleeper.0)?.signal();
            fs::write(dir.join(file), thawed)?;
            Ok((is_so, how, becomes(|| !is_stopped(id))))
        });

        drop(sleeper);
        becomes(|| fs::remove_dir(&dir).is_ok());
        match outcome {
            Ok(result) => assert_eq!(result, (true, Some(Signal::SIGKILL as i32), true)),
            Err(err) => eprintln!("skipped: no control group can be frozen: {err}"),
        }
    }
}
