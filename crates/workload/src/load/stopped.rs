//! Whether a process is kept from running: stopped by a signal, or frozen with its
//! control group. It then does no work, and has not ended.

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

/// Where control groups of version 2 are mounted: alone, or beside version 1.
const UNIFIED: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Where the freezer of version 1 is.
const FREEZER: &str = "/sys/fs/cgroup/freezer";

/// Whether a load was kept from running: stopped by a signal, or frozen with its
/// control group. It has then not ended, and does no work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Halt {
    /// It runs, and did since it was last asked. A freeze between two looks goes unseen.
    No,
    /// It runs again: a signal stopped it since it was last asked, and one let it go on.
    Meanwhile,
    /// It is kept from running now.
    Now,
}

/// Whether our child `id` is kept from running, or was stopped by a signal since the
/// latest call: the kernel remembers that, and this takes it.
pub(super) fn halt(id: u32) -> Halt {
    let was_stopped = took_stop(id);
    match (is_stopped(id), was_stopped) {
        (true, _) => Halt::Now,
        (false, true) => Halt::Meanwhile,
        (false, false) => Halt::No,
    }
}

/// Takes what the kernel tells of our child's stops. Whether there was one. It tells
/// nothing of SIGCONT where nothing was stopped (`wait(2)`, `WCONTINUED`).
fn took_stop(id: u32) -> bool {
    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WCONTINUED | WaitPidFlag::WNOHANG;
    let mut seen = false;
    // A stop and the end of one: whoever sends more meanwhile is asked again later.
    for _ in 0..2 {
        match waitid(Id::Pid(Pid::from_raw(id.cast_signed())), flags) {
            Ok(WaitStatus::Stopped(..) | WaitStatus::Continued(_)) => seen = true,
            Ok(_) | Err(_) => break,
        }
    }
    seen
}

/// Whether process `id` is kept from running. One that is gone is not, nor is one of
/// which that cannot be read.
pub(super) fn is_stopped(id: u32) -> bool {
    // Names of processes and groups need not be UTF-8.
    let of = |name: &str| {
        let text = fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    };
    has_stopped_state(&of("stat")) || is_frozen(&of("cgroup"))
}

/// Waits until a child has ended that was sent SIGKILL. Returns how. One that is frozen
/// with its control group, of version 1, ends only when that is thawed, which can be
/// never: it is given up after a while, and ends then.
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

/// Whether the state of `/proc/PID/stat` is that of a process that a signal stopped.
/// One that a debugger holds is not meant: it is held at each system call.
fn has_stopped_state(stat: &str) -> bool {
    // A name can hold anything, brackets and spaces too.
    let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
    after.starts_with('T')
}

/// Whether one of the control groups of `/proc/PID/cgroup` is frozen.
fn is_frozen(groups: &str) -> bool {
    groups.lines().any(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            return false;
        };
        match controllers {
            "" => UNIFIED.iter().any(|root| {
                let said = fs::read_to_string(within(root, path).join("cgroup.events"));
                said.is_ok_and(|said| said.lines().any(|line| line == "frozen 1"))
            }),
            "freezer" => {
                let said = fs::read_to_string(within(FREEZER, path).join("freezer.state"));
                said.is_ok_and(|said| said.trim() == "FROZEN")
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

    /// Ends with this value, also where a test fails.
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
    fn a_process_is_stopped_from_sigstop_to_sigcont() {
        let sleeper = Sleeper::start();

        assert!(!is_stopped(sleeper.0.id()));
        assert!(sleeper.is_stopped_after(Signal::SIGSTOP, true));
        assert!(sleeper.is_stopped_after(Signal::SIGCONT, false));
    }

    #[test]
    fn a_stop_that_is_over_is_told_once() {
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
    fn a_name_that_looks_like_a_state_is_none() {
        assert!(has_stopped_state("7 (a) T) T 1 7"));
        assert!(!has_stopped_state("7 (a) T 1) S 1 7"));
        assert!(!has_stopped_state("7 (held by gdb) t 1 7"));
        assert!(!has_stopped_state(""));
    }

    #[test]
    fn a_process_whose_control_group_is_frozen_is_stopped_and_not_waited_for_for_ever() {
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

        let seen = moved.and_then(|()| {
            fs::write(dir.join(file), frozen)?;
            let is_so = becomes(|| is_stopped(id));
            sleeper.0.kill()?;
            let how = killed(&mut sleeper.0)?.signal();
            fs::write(dir.join(file), thawed)?;
            Ok((is_so, how, becomes(|| !is_stopped(id))))
        });

        drop(sleeper);
        becomes(|| fs::remove_dir(&dir).is_ok());
        match seen {
            Ok(seen) => assert_eq!(seen, (true, Some(Signal::SIGKILL as i32), true)),
            Err(err) => eprintln!("skipped: no control group can be frozen: {err}"),
        }
    }
}
