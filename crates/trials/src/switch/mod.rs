//! Threads of one priority, or processes, that hand one CPU over in turn (Timmerman
//! 1998).
//!
//! The instant before a hand-over is kept where all threads see it; the next one
//! reads the clock first of all. Stretches of all numbers of threads take turns,
//! so that what the machine does meanwhile hits them alike.

mod ring;
mod shared;
mod team;
mod token;
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
pub(super) use self::watch::try_watch;
use self::watch::{Watch, WatchMemory};
use laggard_measure::linux::witness::Witness;
use laggard_measure::linux::{clock, policy, reason_of};

/// Threads of one priority keep everybody else from the CPU: they run for so long,
const RUN: Nanos = Nanos::from_ms(20);
/// and leave it for about as long again. Half of a CPU is below what the kernel lets
/// real-time threads have, so that it never stops them either. No whole number of
/// milliseconds: what happens every 40 ms would lie in each pause, or in none.
const PAUSE: Nanos = Nanos::from_us(21_170);
/// How often what happens to laggard itself is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// A stretch may take longer than planned by so many looks. Looks, not time:
/// laggard may be stopped.
const PATIENCE_LOOKS: u64 = 1_000;
/// Who is asked to end has so many looks to do so: a thread that somebody above it
/// keeps from its CPU cannot, and what it saw is not wanted any more.
const ENDING_LOOKS: u64 = 100;
/// How often threads that are readied are looked at,
const READY_LOOK: Duration = Duration::from_millis(1);
/// and how many looks that may take.
const READY_LOOKS: u64 = 20_000;

/// What a process has of its own: tables of its memory, its stack, and what it writes
/// to.
const PROCESS_BYTES: u64 = 1 << 20;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct SwitchPlan {
    /// How many threads hand over, each number by itself; 2 at least.
    pub threads: Vec<usize>,
    /// How, and as what.
    pub way: SwitchWay,
    /// Where: one CPU, or two that take turns.
    pub cpus: Vec<Cpu>,
    /// How long each stretch takes, pauses included.
    pub length: Nanos,
    /// How many stretches of each number.
    pub stretches: usize,
}

/// Which stretch it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StretchOf {
    /// Among so many threads.
    pub threads: usize,
    /// Whether it is the one that tells what watching costs, and none of the others.
    pub is_extra: bool,
}

/// Measures hand-overs.
#[derive(Debug)]
pub struct SwitchBench {
    witness: Option<Witness>,
    /// The threads' name, which nobody else's threads have.
    name: String,
    unwatched_because: Option<Absence>,
}

impl SwitchBench {
    /// Readies this process: its memory is locked as far as it may be. To be
    /// called before there are other threads.
    #[must_use]
    pub fn new() -> Self {
        // A limit is no reason not to measure: what is used was touched before.
        let _ = policy::lock_memory();
        let number = (u64::from(std::process::id()) ^ clock::now().ns()) & 0xffff;
        Self {
            witness: Witness::settled().ok(),
            name: format!("lag/switch-{number:04x}"),
            unwatched_because: None,
        }
    }

    /// Why nothing tells what came between hand-overs; `None`: it is told.
    pub fn unwatched_because(&self) -> Option<&Absence> {
        self.unwatched_because.as_ref()
    }

    /// Measures all numbers of threads, until each has its stretches or `stop` is
    /// set; `keep` says after each stretch what is kept of it. Where programs inside
    /// the kernel can watch, each number first has a stretch without them.
    pub fn measure<S>(
        &mut self,
        plan: &SwitchPlan,
        stop: &AtomicBool,
        mut keep: impl FnMut(StretchOf, SwitchStretch) -> S,
    ) -> Vec<SwitchRun<S>> {
        if !policy::may_lock_more(plan.bytes()) {
            // Locked, memory to come would be refused.
            policy::unlock_memory();
        }
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
            let seen = watch.as_ref().filter(|_| !is_alone).map(|it| &it.seen);
            for run in runs.iter_mut().filter(|run| run.absence.is_none()) {
                if stop.load(Ordering::Relaxed) {
                    return runs;
                }
                // What was ended early is no stretch of the same kind.
                let Some(result) = self.undisturbed(plan, run.threads, seen, stop) else {
                    return runs;
                };
                let of = StretchOf {
                    threads: run.threads,
                    is_extra: is_alone,
                };
                match result.map(|stretch| keep(of, stretch)) {
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
            _ => Err(Absence {
                reason: "what comes between is seen on one CPU only".into(),
                remedy: "leave `--cross` out".into(),
                lacks: Lacks::Kernel,
            }),
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

    /// A stretch in which laggard was not stopped; `None` once `stop` is set.
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
                refusal = Some(refused(&format!("so many {}", plan.who()), &err));
                break;
            }
        }
        let readied = readied(&ring, team.len(), stop);
        if let Some(absence) = refusal.or(readied.absence) {
            ring.shared.begin(None);
            // Who has not come by now is not waited for.
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
    /// The memory that a stretch of the most threads takes, about.
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

/// How threads came to be what they are to be.
#[derive(Debug)]
struct Readied {
    /// Why they are not.
    absence: Option<Absence>,
    /// How many have not said.
    missing: usize,
}

/// Waits until the first so many threads are what they are to be, but not for ever:
/// somebody above them may have their CPU.
fn readied(ring: &Ring, threads: usize, stop: &AtomicBool) -> Readied {
    let mut looks = READY_LOOKS;
    loop {
        let mut readied = Readied {
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
        looks -= 1;
        if looks == 0 || stop.load(Ordering::Relaxed) {
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
        std::thread::sleep(READY_LOOK);
    }
}

/// Waits until all have come to their end. Who does not is left behind: nothing
/// can end it.
fn ended(ring: &Ring, stop: &AtomicBool) -> Result<(), Absence> {
    let look_ns = u64::try_from(LOOK.as_nanos()).unwrap_or(u64::MAX);
    let mut looks = ring.plan.length.ns() / look_ns + PATIENCE_LOOKS;
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
        looks = looks.saturating_sub(1);
        if looks == 0 {
            ring.end();
            return Err(unfinished());
        }
        if stop.load(Ordering::Relaxed) {
            ring.end();
            looks = looks.min(ENDING_LOOKS);
        }
        std::thread::sleep(LOOK);
    }
}

fn unfinished() -> Absence {
    Absence {
        reason: "the threads did not come to an end".into(),
        remedy: "look for what keeps them from their CPU".into(),
        lacks: Lacks::Machine,
    }
}

/// Why a thread on this CPU cannot have a deadline.
fn no_deadline(cpu: Cpu, err: &io::Error) -> Absence {
    Absence {
        reason: format!("SCHED_DEADLINE on CPU {cpu} alone: refused, {}", reason_of(err)),
        remedy: "the kernel binds no such thread to a CPU that is not a cpuset of its own (`cpuset.cpus.partition`), unless kernel.sched_rt_runtime_us is -1".into(),
        lacks: Lacks::Rights,
    }
}

fn refused(what: &str, err: &io::Error) -> Absence {
    let lacks_rights = err.kind() == io::ErrorKind::PermissionDenied;
    let (lacks, remedy) = if lacks_rights {
        (
            Lacks::Rights,
            "run as root, or raise the limit (`ulimit -r`)",
        )
    } else {
        (
            Lacks::Machine,
            "ask for fewer threads, or raise the limit (`ulimit -a`)",
        )
    };
    Absence {
        reason: format!("{what}: refused, {}", reason_of(err)),
        remedy: remedy.into(),
        lacks,
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{HandOver, SwitchPolicy};

    use super::*;

    /// With nobody in it.
    fn ring(length: Nanos) -> Ring {
        let plan = SwitchPlan {
            threads: vec![3],
            way: SwitchWay {
                via: HandOver::Yield,
                service: SwitchPolicy::Other,
                are_processes: false,
                working_set_bytes: 0,
                is_cross: false,
            },
            cpus: vec![Cpu(0)],
            length,
            stretches: 1,
        };
        let ring = Ring::new(&plan, 3, None);
        ring.unwrap()
    }

    /// Somebody above them has their CPU: they never say that they are there.
    #[test]
    fn who_asks_for_the_end_does_not_wait_for_threads_that_do_not_come() {
        let readied = readied(&ring(Nanos::ZERO), 3, &AtomicBool::new(true));

        assert_eq!(readied.missing, 3);
        let reason = readied.absence.unwrap().reason;
        assert_eq!(reason, "3 of 3 threads did not get to their CPU");
    }

    /// Looks until all is given up otherwise: a minute of them.
    #[test]
    fn who_asks_for_the_end_does_not_wait_for_threads_that_do_not_end() {
        let ring = ring(Nanos::from_secs(60));

        let found = ended(&ring, &AtomicBool::new(true));

        assert_eq!(found, Err(unfinished()));
    }

    #[test]
    fn all_that_come_are_heard_before_any_refusal_is_told() {
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
