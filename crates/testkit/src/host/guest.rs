//! Running QEMU: watched, stalled, ended.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::clock::GuestClock;
use super::death;
use super::error::{FetchError, GuestError};
use super::qmp::Qmp;
use super::results::{HEADER_BYTES, Header, LIMIT_BYTES};
use super::{Architecture, PlannedStall, Stall};

/// Message of init at the start of the command.
const COMMAND_BEGINS: &str = "testhost: command begins";
/// Maximum time for a guest to return its results after a request to stop.
const GRACE: Duration = Duration::from_secs(10);
/// Limit against hanging, not an expectation.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);
/// Maximum text of the console; only the end is kept.
const CONSOLE_LIMIT: usize = 1 << 20;

/// Returns the path of the protocol's socket, which must be short (108 bytes).
pub(super) fn socket(scratch: &Path) -> PathBuf {
    scratch.join("qmp")
}

#[derive(Debug)]
enum GuestEvent {
    /// Line of the console with its arrival time.
    Line(String, Instant),
    /// Event that QEMU reports.
    Event(String),
    /// QEMU has closed its end of the console: it has ended.
    Gone,
}

/// Results of a guest that has ended normally.
#[derive(Debug)]
pub(super) struct GuestResults {
    pub(super) header: Header,
    pub(super) archive: PathBuf,
    pub(super) console: String,
    pub(super) stalls: Vec<Stall>,
    pub(super) boot: Duration,
    pub(super) total: Duration,
}

/// Guest that runs until this value is dropped.
#[derive(Debug)]
pub(super) struct Guest {
    process: Process,
    /// Closed when the guest was asked to stop.
    input: Option<ChildStdin>,
    qmp: Qmp,
    happenings: Receiver<GuestEvent>,
    console: String,
    clock: GuestClock,
    scratch: PathBuf,
    results_at: u64,
    booted_at: Instant,
    began_at: Option<Instant>,
}

impl Guest {
    /// Starts QEMU with these arguments. The guest leaves its results at the physical address
    /// `results_at`.
    pub(super) fn boot(
        architecture: Architecture,
        results_at: u64,
        arguments: &[String],
        scratch: &Path,
    ) -> Result<Self, GuestError> {
        let booted_at = Instant::now();
        // QEMU ends when this thread ends in any way, and never runs under a real-time policy,
        // which would starve its main loop.
        let errors = scratch.join("qemu.err");
        let mut process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "chrt", "--other", "0"])
            .arg(architecture.emulator().0)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).map_err(GuestError::io(&errors))?)
            .spawn()
            .map(Process)
            .map_err(|_| FetchError::NotInstalled {
                program: "setpriv",
                package: "util-linux",
            })?;
        let (sender, happenings) = channel();
        if let Some(output) = process.0.stdout.take() {
            let sender = sender.clone();
            thread::spawn(move || watch_console(output, &sender));
        }
        let stream = process.connect(architecture, scratch)?;
        let qmp = Qmp::start(stream, move |event| {
            // The receiver is gone after the guest is dropped.
            let _ = sender.send(GuestEvent::Event(event));
        })?;
        Ok(Self {
            input: process.0.stdin.take(),
            process,
            qmp,
            happenings,
            console: String::new(),
            clock: GuestClock::default(),
            scratch: scratch.into(),
            results_at,
            booted_at,
            began_at: None,
        })
    }

    /// Waits until the guest has ended, and makes stalls in the meantime.
    pub(super) fn finish(
        mut self,
        stalls: &[PlannedStall],
        deadline: Duration,
    ) -> Result<GuestResults, GuestError> {
        let mut planned = stalls.iter().peekable();
        let mut made = Vec::new();
        loop {
            let until = self.ends_by(deadline);
            let due = match (self.began_at, planned.peek()) {
                (Some(began), Some(stall)) => Some(began + stall.at),
                _ => None,
            };
            let wait = due.map_or(until, |due| due.min(until));
            let wait = wait.saturating_duration_since(Instant::now());
            match self.happenings.recv_timeout(wait) {
                Ok(GuestEvent::Line(line, time)) => self.show(&line, time),
                Ok(GuestEvent::Event(event)) if event == "SHUTDOWN" => {
                    return self.collect(made);
                }
                Ok(GuestEvent::Event(_)) => {}
                Ok(GuestEvent::Gone) | Err(RecvTimeoutError::Disconnected) => {
                    // Its console is closed, so it has ended or is about to.
                    let status = self.process.0.wait().map_err(GuestError::io("qemu"))?;
                    return Err(GuestError::Emulator {
                        how: death::ending(status),
                        is_own_fault: death::is_own_fault(status),
                        words: last_words(&self.scratch)?,
                        console: std::mem::take(&mut self.console),
                    });
                }
                Err(RecvTimeoutError::Timeout) => {
                    let is_due = due.is_some_and(|due| due <= Instant::now());
                    if let Some(stall) = planned.next_if(|_| is_due) {
                        made.push(self.stall(stall.length)?);
                    } else if Instant::now() < self.ends_by(deadline) {
                        // It waited for a CPU in the meantime.
                    } else if let Some(mut input) = self.input.take() {
                        // Asks init to end the command. A guest that cannot read this is ended
                        // after the grace time.
                        let _ = input.write_all(b"\n");
                    } else {
                        return Err(GuestError::Deadline {
                            after: deadline,
                            console: std::mem::take(&mut self.console),
                            output: None,
                        });
                    }
                }
            }
        }
    }

    /// Returns the latest time at which the guest has to be asked to stop, or after that to have
    /// ended. A busy machine does not shorten its time.
    fn ends_by(&self, deadline: Duration) -> Instant {
        let grace = if self.input.is_none() {
            GRACE
        } else {
            Duration::ZERO
        };
        self.booted_at + deadline + grace + self.process.waited()
    }

    fn show(&mut self, line: &str, arrived: Instant) {
        if self.clock.take(line, arrived, self.began_at.is_some()) {
            return;
        }
        if line == COMMAND_BEGINS {
            self.began_at = Some(arrived);
        }
        self.console.push_str(line);
        self.console.push('\n');
        if self.console.len() > CONSOLE_LIMIT {
            let half = self.console.len() / 2;
            let cut = self.console[half..]
                .find('\n')
                .map_or(half, |arrived| half + arrived + 1);
            self.console.drain(..cut);
        }
    }

    /// Stops QEMU by a signal; returns the time and length of the stop. QEMU's `stop` command
    /// would also stop the guest's clocks, and the guest would notice nothing.
    fn stall(&self, length: Duration) -> Result<(Instant, Duration), GuestError> {
        let signal = |signal| {
            kill(self.process.pid(), signal).map_err(|errno| GuestError::Qemu(errno.to_string()))
        };
        let from = Instant::now();
        signal(Signal::SIGSTOP)?;
        thread::sleep(length);
        signal(Signal::SIGCONT)?;
        Ok((from, from.elapsed()))
    }

    /// The guest has switched off; its memory still exists.
    fn collect(mut self, stalls: Vec<(Instant, Duration)>) -> Result<GuestResults, GuestError> {
        let total = self.booted_at.elapsed();
        let page = self.scratch.join("header");
        self.qmp.save_memory(self.results_at, HEADER_BYTES, &page)?;
        let bytes = fs::read(&page).map_err(GuestError::io(&page))?;
        // The last lines of the console may arrive after the event.
        while let Ok(happening) = self.happenings.recv_timeout(Duration::from_millis(50)) {
            if let GuestEvent::Line(line, time) = happening {
                self.show(&line, time);
            }
        }
        let header = match Header::parse(&bytes) {
            Some(header) if header.bytes > 0 => header,
            _ => {
                return Err(GuestError::NoResults {
                    began: self.began_at.is_some(),
                    console: std::mem::take(&mut self.console),
                });
            }
        };
        if header.bytes > LIMIT_BYTES {
            return Err(GuestError::ResultsTooBig {
                bytes: header.bytes,
                limit: LIMIT_BYTES,
            });
        }
        let began = self.began_at.unwrap_or(self.booted_at);
        let mut made = Vec::new();
        for (from, length) in stalls {
            made.push(Stall {
                at: from - began,
                length,
                guest: self.clock.at(from).ok_or(GuestError::ClockUnknown)?,
            });
        }
        let archive = self.scratch.join("results.tar");
        self.qmp
            .save_memory(self.results_at + HEADER_BYTES, header.bytes, &archive)?;
        Ok(GuestResults {
            header,
            archive,
            console: std::mem::take(&mut self.console),
            stalls: made,
            boot: self.began_at.map_or(total, |began| began - self.booted_at),
            total,
        })
    }
}

/// Process of QEMU, which is killed on drop.
#[derive(Debug)]
struct Process(Child);

impl Process {
    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).expect("Linux counts processes to 2^22"))
    }

    /// Time for which QEMU was runnable without a CPU: of its thread with the longest time. Zero
    /// on kernels without this figure.
    fn waited(&self) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id()));
        let delays =
            tasks.into_iter().flatten().flatten().filter_map(|task| {
                run_delay(&fs::read_to_string(task.path().join("schedstat")).ok()?)
            });
        delays.max().unwrap_or_default()
    }

    /// Connects when QEMU listens.
    fn connect(
        &mut self,
        architecture: Architecture,
        scratch: &Path,
    ) -> Result<UnixStream, GuestError> {
        let give_up = Instant::now() + LISTENS_WITHIN;
        loop {
            if let Ok(stream) = UnixStream::connect(socket(scratch)) {
                return Ok(stream);
            }
            let ended = self.0.try_wait().map_err(GuestError::io("qemu"))?.is_some();
            let errors = last_words(scratch)?;
            if ended && errors.contains("failed to execute") {
                let (program, package) = architecture.emulator();
                return Err(FetchError::NotInstalled { program, package }.into());
            }
            if ended || Instant::now() > give_up {
                return Err(GuestError::Qemu(errors));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the time without a CPU from the text of `schedstat`: time on a CPU and time runnable
/// without one in ns, then the number of time slices.
fn run_delay(schedstat: &str) -> Option<Duration> {
    let ns = schedstat.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}

/// Returns QEMU's error messages.
fn last_words(scratch: &Path) -> Result<String, GuestError> {
    let path = scratch.join("qemu.err");
    let text = fs::read(&path).map_err(GuestError::io(path))?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

fn watch_console(output: impl Read, sender: &Sender<GuestEvent>) {
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    while reader
        .read_until(b'\n', &mut line)
        .is_ok_and(|read| read > 0)
    {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        if sender.send(GuestEvent::Line(text, Instant::now())).is_err() {
            return;
        }
    }
    // The receiver is gone after the guest is dropped.
    let _ = sender.send(GuestEvent::Gone);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_cpu_is_the_second_figure() {
        assert_eq!(
            run_delay("8000000 2500000000 17\n"),
            Some(Duration::from_millis(2_500))
        );
        assert_eq!(run_delay("0"), None);
    }

    #[test]
    fn a_busy_process_beside_another_on_its_cpu_waits_for_it() {
        // SCHED_IDLE, so that it delays nothing else.
        let busy = || {
            let arguments = "--pdeathsig KILL chrt --idle 0 taskset -c 0 sh -c";
            let mut command = Command::new("setpriv");
            command
                .args(arguments.split(' '))
                .arg("while :; do :; done");
            command.spawn().map(Process).unwrap()
        };
        let (first, second) = (busy(), busy());
        let give_up = Instant::now() + Duration::from_secs(60);

        while first.waited().min(second.waited()) < Duration::from_millis(20) {
            assert!(Instant::now() < give_up, "neither waits for the other");
            thread::sleep(Duration::from_millis(10));
        }
    }
}
