//! Whether laggard itself was stopped: by a signal, a debugger, a freezer, or
//! with the whole machine.
//!
//! A thread that does nothing but sleep is the witness. Nothing wakes it but
//! what stops every thread of a process: the kernel wakes it to be stopped, and
//! counts that it came to a CPU once more. A machine that is overloaded, or a
//! virtual machine that is held, leaves that count alone. Suspending leaves
//! sleeping threads asleep too, and shows in the clock that goes on meanwhile.
//!
//! The count is read with every look at the rings. `schedstat` has three numbers;
//! `status` has sixty lines, which a kernel without preemption writes out before
//! anybody else may run: 160 us on a test host whose instructions take 8 ns.

use std::fs::File;
use std::io::{self, PipeWriter, Read as _};
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use laggard_model::Nanos;

use super::{clock, policy};

/// More than a status takes.
const STATUS_BYTES: usize = 4096;
/// More than three numbers take.
const SCHEDSTAT_BYTES: usize = 80;
/// Clocks that are read one after the other differ by less, unless the machine
/// was suspended.
const SUSPENDED: Nanos = Nanos::from_ms(1);
/// The thread sleeps within the first of these; a machine on which it does not
/// after all of them is so late that a stop is not to be told from it.
const SETTLING_LOOKS: u32 = 1_000;
const SETTLING_PAUSE: Duration = Duration::from_millis(1);

/// Tells when laggard was stopped.
#[derive(Debug)]
pub struct Witness {
    /// What the kernel says of the thread.
    files: WitnessFiles,
    /// The thread ends when this does.
    awake: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    seen: Option<Seen>,
}

/// Where the kernel tells of the thread.
#[derive(Debug)]
struct WitnessFiles {
    status: File,
    /// Absent where the kernel does not count what a thread waits.
    schedstat: Option<File>,
}

/// What was seen at a look.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Seen {
    /// How often the thread came to a CPU, or gave it up.
    turns: u64,
    /// For how long the machine was suspended since it started.
    suspended: Nanos,
}

impl Witness {
    /// Starts the thread.
    pub fn new() -> io::Result<Self> {
        let (asleep, awake) = io::pipe()?;
        let (ready, files) = channel();
        let thread = policy::thread("lag/witness")?.spawn(move || sleep(asleep, &ready))?;
        let files = files
            .recv()
            .map_err(|_| io::Error::other("the thread that only sleeps ended at its start"))??;
        Ok(Self {
            files,
            awake: Some(awake),
            thread: Some(thread),
            seen: None,
        })
    }

    /// Starts the thread and waits until it does nothing but sleep, so that already
    /// the next look tells whether laggard was stopped since.
    pub fn settled() -> io::Result<Self> {
        let mut witness = Self::new()?;
        for _ in 0..SETTLING_LOOKS {
            witness.was_stopped();
            if witness.seen.is_some() {
                break;
            }
            std::thread::sleep(SETTLING_PAUSE);
        }
        Ok(witness)
    }

    /// Whether laggard was stopped since the call before; the first calls tell
    /// nothing until the thread sleeps.
    pub fn was_stopped(&mut self) -> bool {
        let Some(before) = self.seen else {
            // At its start it may wait for something else.
            if self.files.is_asleep() {
                self.seen = self.look();
            }
            return false;
        };
        let Some(now) = self.look() else {
            return false;
        };
        self.seen = Some(now);
        now.turns != before.turns || now.suspended > before.suspended + SUSPENDED
    }

    fn look(&self) -> Option<Seen> {
        Some(Seen {
            turns: self.files.turns()?,
            suspended: clock::suspended(),
        })
    }
}

impl WitnessFiles {
    /// Of the calling thread.
    fn own() -> io::Result<Self> {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        Ok(Self {
            status: File::open("/proc/thread-self/status")?,
            // It ran to get here, so a kernel that counts has counted.
            schedstat: schedstat.filter(|file| text::<SCHEDSTAT_BYTES, _>(file, turns) > Some(0)),
        })
    }

    fn is_asleep(&self) -> bool {
        text::<STATUS_BYTES, _>(&self.status, sleeps).is_some_and(|(_, is_asleep)| is_asleep)
    }

    fn turns(&self) -> Option<u64> {
        match &self.schedstat {
            Some(file) => text::<SCHEDSTAT_BYTES, _>(file, turns),
            None => {
                let (sleeps, is_asleep) = text::<STATUS_BYTES, _>(&self.status, sleeps)?;
                // Awake, it will fall asleep once more.
                Some(sleeps + u64::from(!is_asleep))
            }
        }
    }
}

/// What `tells` finds in the first `BYTES` of a file.
fn text<const BYTES: usize, T>(file: &File, tells: fn(&str) -> Option<T>) -> Option<T> {
    let mut bytes = [0; BYTES];
    let length = file.read_at(&mut bytes, 0).ok()?;
    tells(&String::from_utf8_lossy(&bytes[..length]))
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
fn sleep(mut asleep: io::PipeReader, ready: &Sender<io::Result<WitnessFiles>>) {
    let files = policy::block_signals().and_then(|()| WitnessFiles::own());
    // The other end waits for exactly this message.
    let _ = ready.send(files);
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

/// How often a thread with this `schedstat` came to a CPU (`sched_info.pcount`).
fn turns(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_schedstat_tells_how_often_it_came_to_a_cpu() {
        assert_eq!(turns("1520310 88012 17\n"), Some(17));
        assert_eq!(turns("0 0 0\n"), Some(0));
        assert_eq!(turns(""), None);
    }

    #[test]
    fn a_threads_status_tells_how_often_it_fell_asleep() {
        let status = "Name:\tlag/witness\nState:\tS (sleeping)\nPid:\t7\n\
            voluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t9\n";

        assert_eq!(sleeps(status), Some((3, true)));
        let awake = status.replace("S (sleeping)", "R (running)");
        assert_eq!(sleeps(&awake), Some((3, false)));
        assert_eq!(sleeps(""), None);
    }

    /// The whole status would be written out for each look.
    #[test]
    fn a_look_reads_three_numbers_where_the_kernel_counts() {
        let own = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        if turns(&own).unwrap_or(0) == 0 {
            return println!("skipped: this kernel does not count what a thread waits");
        }

        let witness = Witness::new().unwrap();

        assert!(witness.files.schedstat.is_some());
        assert!(witness.files.turns() >= Some(1));
    }

    /// Otherwise a stop up to then would be the machine's.
    #[test]
    fn a_settled_witness_tells_from_its_first_look_on() {
        let witness = Witness::settled().unwrap();

        assert!(witness.seen.is_some());
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
