//! Detection of stops of laggard itself: by a signal, a debugger, a freezer, or with the whole
//! machine.
//!
//! The witness is a thread that only sleeps. It wakes only when all threads of the process are
//! stopped: the kernel wakes it to stop it, and counts one more run of it on a CPU. An overloaded
//! machine, or a paused virtual machine, does not change this count. Suspend also leaves sleeping
//! threads asleep. It shows in the clock that continues during suspend.
//!
//! The count is read at each pass over the rings. `schedstat` has three numbers. `status` has
//! sixty lines, and while a kernel without preemption writes them, nothing else runs: 160 us on a
//! test host whose instructions take 8 ns.

use std::fs::File;
use std::io::{self, PipeWriter, Read as _};
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use laggard_model::Nanos;

use super::{clock, policy};

/// Size of a buffer for `status`, which is shorter.
const STATUS_BYTES: usize = 4096;
/// Size of a buffer for three numbers.
const SCHEDSTAT_BYTES: usize = 80;
/// Minimum difference of two clocks that shows a suspend. Otherwise, clocks read one after the
/// other differ by less.
const MIN_SUSPEND: Nanos = Nanos::from_ms(1);
/// Maximum number of checks until the thread sleeps; the first few usually suffice. If it does not
/// sleep after all of them, the machine is too slow to recognise a stop.
const MAX_SETTLING_CHECKS: u32 = 1_000;
const SETTLING_PAUSE: Duration = Duration::from_millis(1);

/// Detector of stops of laggard.
#[derive(Debug)]
pub struct Witness {
    /// Files with the kernel's counts of the thread.
    files: WitnessFiles,
    /// Pipe whose end ends the thread.
    awake: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    seen: Option<WitnessReading>,
}

/// Files with the kernel's counts of a thread.
#[derive(Debug)]
struct WitnessFiles {
    status: File,
    /// `None` if the kernel does not count scheduling delays.
    schedstat: Option<File>,
}

/// Values at a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct WitnessReading {
    /// Number of times that the thread was switched in, or gave up the CPU.
    turns: u64,
    /// Time that the machine was suspended since boot.
    suspended: Nanos,
}

impl Witness {
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

    /// Starts the thread and waits until it only sleeps, so that the next check already shows a
    /// stop.
    pub fn settled() -> io::Result<Self> {
        let mut witness = Self::new()?;
        for _ in 0..MAX_SETTLING_CHECKS {
            witness.was_stopped();
            if witness.seen.is_some() {
                break;
            }
            std::thread::sleep(SETTLING_PAUSE);
        }
        Ok(witness)
    }

    /// Returns whether laggard was stopped since the previous call. The first calls return false
    /// until the thread sleeps.
    pub fn was_stopped(&mut self) -> bool {
        let Some(before) = self.seen else {
            // At its start it may wait for something else.
            if self.files.is_asleep() {
                self.seen = self.read();
            }
            return false;
        };
        let Some(now) = self.read() else {
            return false;
        };
        self.seen = Some(now);
        now.turns != before.turns || now.suspended > before.suspended + MIN_SUSPEND
    }

    fn read(&self) -> Option<WitnessReading> {
        Some(WitnessReading {
            turns: self.files.turns()?,
            suspended: clock::suspended(),
        })
    }
}

impl WitnessFiles {
    /// Opens the files of the calling thread.
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

/// Returns the value that `parse` finds in the first `BYTES` of a file.
fn text<const BYTES: usize, T>(file: &File, parse: fn(&str) -> Option<T>) -> Option<T> {
    let mut bytes = [0; BYTES];
    let length = file.read_at(&mut bytes, 0).ok()?;
    parse(&String::from_utf8_lossy(&bytes[..length]))
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.awake = None;
        if let Some(thread) = self.thread.take() {
            // The thread only slept, so its result carries no information.
            let _ = thread.join();
        }
    }
}

/// Sleeps until the other end of the pipe is closed.
fn sleep(mut asleep: io::PipeReader, ready: &Sender<io::Result<WitnessFiles>>) {
    let files = policy::block_signals().and_then(|()| WitnessFiles::own());
    // The receiver waits for exactly this message.
    let _ = ready.send(files);
    let _ = asleep.read(&mut [0]);
}

/// Returns the number of voluntary context switches in this status, and whether the thread
/// sleeps.
fn sleeps(status: &str) -> Option<(u64, bool)> {
    let field = |name: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.trim()))
    };
    let sleeps = field("voluntary_ctxt_switches:")?.parse().ok()?;
    Some((sleeps, field("State:")?.starts_with('S')))
}

/// Returns the number of switch-ins in this `schedstat` (`sched_info.pcount`).
fn turns(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_has_the_number_of_switch_ins() {
        assert_eq!(turns("1520310 88012 17\n"), Some(17));
        assert_eq!(turns("0 0 0\n"), Some(0));
        assert_eq!(turns(""), None);
    }

    #[test]
    fn status_has_the_number_of_voluntary_switches() {
        let status = "Name:\tlag/witness\nState:\tS (sleeping)\nPid:\t7\n\
            voluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t9\n";

        assert_eq!(sleeps(status), Some((3, true)));
        let awake = status.replace("S (sleeping)", "R (running)");
        assert_eq!(sleeps(&awake), Some((3, false)));
        assert_eq!(sleeps(""), None);
    }

    /// Avoids that the kernel writes the whole status for each check.
    #[test]
    fn check_reads_schedstat_if_the_kernel_counts_delays() {
        let own = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        if turns(&own).unwrap_or(0) == 0 {
            return println!("skipped: this kernel does not count scheduling delays");
        }

        let witness = Witness::new().unwrap();

        assert!(witness.files.schedstat.is_some());
        assert!(witness.files.turns() >= Some(1));
    }

    /// Otherwise a stop before the first check would be attributed to the machine.
    #[test]
    fn settled_witness_detects_stops_from_its_first_check() {
        let witness = Witness::settled().unwrap();

        assert!(witness.seen.is_some());
    }

    #[test]
    fn process_that_works_and_sleeps_was_not_stopped() {
        let mut witness = Witness::new().unwrap();

        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(!witness.was_stopped());
        }
    }
}
