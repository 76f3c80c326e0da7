//! Threads of one priority, or processes, that hand one CPU over in turn (Timmerman 1998).
//!
//! The time before a context switch is stored where all threads see it, and the next thread reads
//! the clock first. Stretches with different numbers of threads alternate, so that other activity
//! on the machine affects all of them equally.

#[cfg(target_os = "linux")]
mod process;
pub(crate) mod ring;
mod shared;
mod team;
mod token;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(windows)]
#[path = "unwatched.rs"]
mod watch;
mod working_set;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use laggard_model::{Absence, Cpu, Lacks, Nanos, SwitchRun, SwitchStretch, SwitchWay};

use self::ring::Ring;
use self::shared::MemberStep;
use self::team::Team;
#[cfg(target_os = "linux")]
pub(super) use self::watch::try_watch;
use self::watch::{Watch, WatchMemory};
use crate::system::witness::Witness;
use crate::system::{clock, policy, reason_of};

/// Length of a run. During it, threads of one priority keep all others from the CPU.
const RUN: Nanos = Nanos::from_ms(20);
/// Length of the pause after a run. Half of a CPU is below the kernel's limit for real-time
/// threads, so real-time throttling never stops them. Not a whole number of milliseconds: an
/// event with a period of 40 ms would otherwise fall into every pause or into none.
const PAUSE: Nanos = Nanos::from_us(21_170);
/// Interval of the checks for stops of laggard and for the end.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of checks after the end of the planned length. This is not a time, because
/// laggard may be stopped.
const MAX_EXTRA_CHECKS: u64 = 1_000;
/// Maximum number of checks for a thread to end on request. A thread that another thread keeps
/// from its CPU cannot end, and its results are not needed.
const MAX_ENDING_CHECKS: u64 = 100;
/// Interval of the checks of threads that get ready.
const READY_CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum number of these checks.
const MAX_READY_CHECKS: u64 = 20_000;

/// Additional memory of a process in bytes: its page tables, its stack, and memory that it
/// writes.
const PROCESS_BYTES: u64 = 1 << 20;

/// Plan of a measurement of context switches.
#[derive(Clone, Debug)]
pub struct SwitchPlan {
    /// Numbers of threads, each measured separately; at least 2.
    pub threads: Vec<usize>,
    /// Mechanism of the switches, and kind of the threads.
    pub way: SwitchWay,
    /// CPUs: one, or two that alternate.
    pub cpus: Vec<Cpu>,
    /// Length of each stretch, including pauses.
    pub length: Nanos,
    /// Number of stretches per number of threads.
    pub stretches: usize,
}

/// Identification of a stretch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StretchOf {
    pub threads: usize,
    /// Whether this is the additional stretch that measures the overhead of the BPF programs.
    pub is_extra: bool,
}

/// Measurement of context switches.
#[derive(Debug)]
pub struct SwitchBench {
    witness: Option<Witness>,
    /// Name of the threads, which no other thread has.
    name: String,
    unwatched_because: Option<Absence>,
}

impl SwitchBench {
    /// Prepares this process: locks its memory if permitted. Call it before other threads exist.
    #[must_use]
    pub fn new() -> Self {
        // A limit does not prevent the measurement, because the memory in use was touched before.
        let _ = policy::lock_memory();
        let number = (u64::from(std::process::id()) ^ clock::now().ns()) & 0xffff;
        Self {
            witness: Witness::settled().ok(),
            name: format!("lag/switch-{number:04x}"),
            unwatched_because: None,
        }
    }

    /// Returns why interruptions between switches are not observed; `None` if they are.
    pub fn unwatched_because(&self) -> Option<&Absence> {
        self.unwatched_because.as_ref()
    }

    /// Measures all numbers of threads until each has its stretches or `stop` is set. `keep`
    /// selects the results of each stretch. If BPF programs can observe the CPU, each number
    /// first has a stretch without them.
    pub fn measure<S>(
        &mut self,
        plan: &SwitchPlan,
        stop: &AtomicBool,
        mut keep: impl FnMut(StretchOf, SwitchStretch) -> S,
    ) -> Vec<SwitchRun<S>> {
        if !policy::may_lock_more(plan.bytes()) {
            // With a memory lock, new memory would be refused.
            policy::unlock_memory();
        }
        #[cfg(windows)]
        let _class = policy::hold_class(plan.way.service);
        let empty = |&threads: &usize| SwitchRun {
            threads,
            way: plan.way,
            absence: None,
            stretches: Vec::with_capacity(plan.stretches),
            unwatched: None,
        };
        let mut runs: Vec<SwitchRun<S>> = plan.threads.iter().map(empty).collect();
        let mut watch = self.watch(&plan.cpus);
        for round in 0..=plan.stretches {
            let is_alone = round == 0;
            if is_alone && watch.is_none() {
                continue;
            }
            if round == 1 {
                watch = watch.and_then(|watch| self.attached(watch));
            }
            let watch_memory = watch
                .as_ref()
                .filter(|_| !is_alone)
                .map(|watch| &watch.seen);
            for run in runs.iter_mut().filter(|run| run.absence.is_none()) {
                if stop.load(Ordering::Relaxed) {
                    return runs;
                }
                // A stretch that ended early is not comparable.
                let Some(result) = self.undisturbed(plan, run.threads, watch_memory, stop) else {
                    return runs;
                };
                let stretch_of = StretchOf {
                    threads: run.threads,
                    is_extra: is_alone,
                };
                match result.map(|stretch| keep(stretch_of, stretch)) {
                    Ok(kept) if is_alone => run.unwatched = Some(kept),
                    Ok(kept) => run.stretches.push(kept),
                    Err(absence) => run.absence = Some(absence),
                }
            }
        }
        runs
    }

    fn watch(&mut self, cpus: &[Cpu]) -> Option<Watch> {
        let watch = match cpus {
            [cpu] => Watch::load(*cpu, &self.name),
            _ => Err(Absence::new(
                "interruptions can be observed on one CPU only",
                "omit `--cross`",
                Lacks::Kernel,
            )),
        };
        watch
            .map_err(|absence| self.unwatched_because = Some(absence))
            .ok()
    }

    fn attached(&mut self, mut watch: Watch) -> Option<Watch> {
        match watch.attach() {
            Ok(()) => Some(watch),
            Err(absence) => {
                self.unwatched_because = Some(absence);
                None
            }
        }
    }

    /// Returns a stretch while laggard was not stopped; `None` once `stop` is set.
    fn undisturbed(
        &mut self,
        plan: &SwitchPlan,
        threads: usize,
        watch: Option<&Arc<WatchMemory>>,
        stop: &AtomicBool,
    ) -> Option<Result<SwitchStretch, Absence>> {
        loop {
            let result = self.stretch(plan, threads, watch, stop);
            let was_stopped = self.witness.as_mut().is_some_and(Witness::was_stopped);
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            if result.is_err() || !was_stopped {
                return Some(result);
            }
        }
    }

    fn stretch(
        &self,
        plan: &SwitchPlan,
        threads: usize,
        watch: Option<&Arc<WatchMemory>>,
        stop: &AtomicBool,
    ) -> Result<SwitchStretch, Absence> {
        let ring = Ring::new(plan, threads, watch.cloned())
            .map_err(|err| refused(&format!("{} for each", plan.way.via), &err))?;
        let ring = Arc::new(ring);
        let mut team = Team::default();
        let mut refusal = None;
        for own in 0..threads {
            if let Err(err) = team.start(&ring, own, &self.name) {
                refusal = Some(refused(&format!("{threads} {}", plan.who()), &err));
                break;
            }
        }
        let readied = readied(&ring, team.len(), stop);
        if let Some(absence) = refusal.or(readied.absence) {
            ring.shared.begin(None);
            // Threads that are not ready by now are not waited for.
            match readied.missing {
                0 => team.join(),
                _ => team.give_up(),
            }
            return Err(absence);
        }
        ring.shared.begin(Some(clock::now() + Nanos::from_ms(2)));
        match ended(&ring, stop) {
            Ok(()) => team.join(),
            Err(absence) => {
                team.give_up();
                return Err(absence);
            }
        }
        Ok(ring.seen())
    }
}

impl SwitchPlan {
    /// Returns the approximate memory of a stretch with the maximum number of threads.
    pub fn bytes(&self) -> u64 {
        let threads = self.threads.iter().max().copied().unwrap_or(0) as u64;
        let each = if self.way.are_processes {
            PROCESS_BYTES
        } else {
            policy::STACK_BYTES as u64
        };
        Ring::kept_bytes(self.length) + threads * (each + self.way.working_set_bytes)
    }

    fn who(&self) -> &'static str {
        if self.way.are_processes {
            "processes"
        } else {
            "threads"
        }
    }
}

impl Default for SwitchBench {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SwitchBench {
    fn drop(&mut self) {
        policy::unlock_memory();
    }
}

/// Result of getting threads ready.
#[derive(Debug)]
struct ReadyResult {
    /// Reason why they are not ready.
    absence: Option<Absence>,
    /// Number of threads that have not reported.
    missing: usize,
}

/// Waits until the first `threads` threads are ready, with a limit: threads of higher priority
/// may keep their CPU.
fn readied(ring: &Ring, threads: usize, stop: &AtomicBool) -> ReadyResult {
    let mut checks = MAX_READY_CHECKS;
    loop {
        let mut readied = ReadyResult {
            absence: None,
            missing: 0,
        };
        for step in ring.shared.steps().take(threads) {
            match step {
                MemberStep::Begun => readied.missing += 1,
                MemberStep::Ready => {}
                MemberStep::Refused(absence) | MemberStep::Broken(absence) => {
                    readied.absence.get_or_insert(absence);
                }
                MemberStep::Done => {
                    readied.absence.get_or_insert_with(unfinished);
                }
            }
        }
        if readied.missing == 0 {
            return readied;
        }
        checks -= 1;
        if checks == 0 || stop.load(Ordering::Relaxed) {
            readied.absence.get_or_insert_with(|| Absence {
                reason: format!(
                    "{} of {threads} {} did not get to their CPU",
                    readied.missing,
                    ring.plan.who()
                ),
                ..unfinished()
            });
            return readied;
        }
        std::thread::sleep(READY_CHECK_INTERVAL);
    }
}

/// Waits until all threads have ended. A thread that does not end is abandoned, because nothing
/// can end it.
fn ended(ring: &Ring, stop: &AtomicBool) -> Result<(), Absence> {
    let look_ns = u64::try_from(CHECK_INTERVAL.as_nanos()).unwrap_or(u64::MAX);
    let mut checks = ring.plan.length.ns() / look_ns + MAX_EXTRA_CHECKS;
    loop {
        let mut are_done = true;
        for step in ring.shared.steps() {
            match step {
                MemberStep::Broken(absence) | MemberStep::Refused(absence) => {
                    ring.end();
                    return Err(absence);
                }
                MemberStep::Done => {}
                MemberStep::Begun | MemberStep::Ready => are_done = false,
            }
        }
        if are_done {
            return Ok(());
        }
        checks = checks.saturating_sub(1);
        if checks == 0 {
            ring.end();
            return Err(unfinished());
        }
        if stop.load(Ordering::Relaxed) {
            ring.end();
            checks = checks.min(MAX_ENDING_CHECKS);
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
}

fn unfinished() -> Absence {
    Absence::new(
        "the threads did not end",
        "find the program that keeps their CPU",
        Lacks::Machine,
    )
}

/// Returns why a thread on this CPU cannot have a deadline.
fn no_deadline(cpu: Cpu, err: &io::Error) -> Absence {
    Absence::new(
        format!(
            "SCHED_DEADLINE on CPU {cpu} only: refused, {}",
            reason_of(err)
        ),
        "make the CPU an exclusive cpuset (`cpuset.cpus.partition`), or set kernel.sched_rt_runtime_us=-1",
        Lacks::Rights,
    )
}

fn refused(what: &str, err: &io::Error) -> Absence {
    let lacks_rights = err.kind() == io::ErrorKind::PermissionDenied;
    let (lacks, remedy) = if lacks_rights {
        (
            Lacks::Rights,
            if cfg!(windows) {
                "run as administrator, or use `--policy other`"
            } else {
                "run as root, or raise the limit (`ulimit -r`)"
            },
        )
    } else {
        (
            Lacks::Machine,
            if cfg!(windows) {
                "use fewer threads or another mechanism"
            } else {
                "use fewer threads, or raise the limit (`ulimit -a`)"
            },
        )
    };
    Absence::new(
        format!("{what}: refused, {}", reason_of(err)),
        remedy,
        lacks,
    )
}

#[cfg(test)]
mod tests {
    use laggard_model::{HandOver, SwitchPolicy};

    use super::*;

    /// Creates a ring without threads.
    fn ring(length: Nanos) -> Ring {
        let plan = SwitchPlan {
            threads: vec![3],
            way: SwitchWay::new(HandOver::Yield, SwitchPolicy::Other),
            cpus: vec![Cpu(0)],
            length,
            stretches: 1,
        };
        let ring = Ring::new(&plan, 3, None);
        ring.unwrap()
    }

    /// Threads of higher priority have their CPU: they never report.
    #[test]
    fn request_to_end_does_not_wait_for_threads_that_are_not_ready() {
        let readied = readied(&ring(Nanos::ZERO), 3, &AtomicBool::new(true));

        assert_eq!(readied.missing, 3);
        let reason = readied.absence.unwrap().reason;
        assert_eq!(reason, "3 of 3 threads did not get to their CPU");
    }

    /// Otherwise the checks would take a minute.
    #[test]
    fn request_to_end_does_not_wait_for_threads_that_do_not_end() {
        let ring = ring(Nanos::from_secs(60));

        let result = ended(&ring, &AtomicBool::new(true));

        assert_eq!(result, Err(unfinished()));
    }

    #[test]
    fn refusal_is_reported_after_all_threads_have_reported() {
        let ring = ring(Nanos::ZERO);
        let steps = [
            MemberStep::Ready,
            MemberStep::Refused(unfinished()),
            MemberStep::Ready,
        ];
        for (own, step) in steps.iter().enumerate() {
            ring.shared.member(own).tell(step);
        }

        let readied = readied(&ring, 3, &AtomicBool::new(false));

        assert_eq!((readied.missing, readied.absence), (0, Some(unfinished())));
    }
}
