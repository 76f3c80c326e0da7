//! Whether laggard itself was stopped: by a signal, a debugger, a freezer, or
//! with the whole machine.
//!
//! A thread that does nothing but sleep is the witness. Nothing wakes it but
//! what stops every thread of a process: the kernel wakes it to be stopped, and
//! counts that it gave up its CPU of its own accord once more. A machine that
//! is overloaded, or a virtual machine that is held, leaves that count alone.
//! Suspending leaves sleeping threads asleep too, and shows in the clock that
//! goes on meanwhile.

use std::fs::File;
use std::io::{self, PipeWriter, Read as _};
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use laggard_model::Nanos;

use super::{clock, policy};

/// More than a status takes.
const STATUS_BYTES: usize = 4096;
/// Clocks that are read one after the other differ by less, unless the machine
/// was suspended.
const SUSPENDED: Nanos = Nanos::from_ms(1);

/// Tells when laggard was stopped.
#[derive(Debug)]
pub(super) struct Witness {
    /// What the kernel says of the thread.
    status: File,
    /// The thread ends when this does.
    awake: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    seen: Option<Seen>,
}

/// What was seen at a look.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Seen {
    /// How often the thread gave up its CPU.
    sleeps: u64,
    /// For how long the machine was suspended since it started.
    suspended: Nanos,
}

impl Witness {
    /// Starts the thread.
    pub(super) fn new() -> io::Result<Self> {
        let (asleep, awake) = io::pipe()?;
        let (ready, status) = channel();
        let thread = std::thread::Builder::new()
            .name("lag/witness".into())
            .stack_size(policy::STACK_BYTES)
            .spawn(move || sleep(asleep, &ready))?;
        let status = status
            .recv()
            .map_err(|_| io::Error::other("the thread that only sleeps ended at its start"))??;
        Ok(Self {
            status,
            awake: Some(awake),
            thread: Some(thread),
            seen: None,
        })
    }

    /// Whether laggard was stopped since the call before.
    pub(super) fn was_stopped(&mut self) -> bool {
        let mut bytes = [0; STATUS_BYTES];
        let Ok(length) = self.status.read_at(&mut bytes, 0) else {
            return false;
        };
        let Some((sleeps, is_asleep)) = sleeps(&String::from_utf8_lossy(&bytes[..length])) else {
            return false;
        };
        let now = Seen {
            // Awake, it will fall asleep once more.
            sleeps: sleeps + u64::from(!is_asleep),
            suspended: clock::suspended(),
        };
        match self.seen {
            // At its start it may wait for something else.
            None if !is_asleep => false,
            None => {
                self.seen = Some(now);
                false
            }
            Some(before) => {
                self.seen = Some(now);
                now.sleeps != before.sleeps || now.suspended > before.suspended + SUSPENDED
            }
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.awake = None;
        if let Some(thread) = self.thread.take() {
            // It only slept; there is nothing to learn from its end.
            let _ = thread.join();
        }
    }
}

/// Sleeps until the other end of the pipe is closed.
fn sleep(mut asleep: io::PipeReader, ready: &Sender<io::Result<File>>) {
    let status = policy::block_signals().and_then(|()| File::open("/proc/thread-self/status"));
    // The other end waits for exactly this message.
    let _ = ready.send(status);
    let _ = asleep.read(&mut [0]);
}

/// How often a thread with this status gave up its CPU of its own accord, and
/// whether it sleeps.
fn sleeps(status: &str) -> Option<(u64, bool)> {
    let field = |name: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.trim()))
    };
    let sleeps = field("voluntary_ctxt_switches:")?.parse().ok()?;
    Some((sleeps, field("State:")?.starts_with('S')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_status_tells_how_often_it_fell_asleep() {
        let status = "Name:\tlag/witness\nState:\tS (sleeping)\nPid:\t7\n\
            voluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t9\n";

        assert_eq!(sleeps(status), Some((3, true)));
        let awake = status.replace("S (sleeping)", "R (running)");
        assert_eq!(sleeps(&awake), Some((3, false)));
        assert_eq!(sleeps(""), None);
    }

    #[test]
    fn a_process_that_works_and_sleeps_was_not_stopped() {
        let mut witness = Witness::new().unwrap();

        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(!witness.was_stopped());
        }
    }
}
