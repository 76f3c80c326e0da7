//! Threads of one priority that hand one CPU over in turn (Timmerman 1998).
//!
//! The instant before a hand-over is kept where all threads see it; the next one
//! reads the clock first of all. Stretches of all numbers of threads take turns,
//! so that what the machine does meanwhile hits them alike.

mod ring;
mod token;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use laggard_model::{Absence, Cpu, HandOver, Lacks, Nanos, Service, SwitchRun, SwitchStretch};

use self::ring::{Ring, RingMessage};
use super::witness::Witness;
use super::{clock, policy, reason_of};

/// Threads of one priority keep everybody else from the CPU: they run for so long,
const RUN: Nanos = Nanos::from_ms(20);
/// and leave it for as long again. Half of a CPU is below what the kernel lets
/// real-time threads have, so that it never stops them either.
const PAUSE: Nanos = Nanos::from_ms(20);
/// How often what happens to laggard itself is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// A stretch may take longer than planned by so many looks. Looks, not time:
/// laggard may be stopped.
const PATIENCE_LOOKS: u64 = 200;
/// Who is asked to end has so many looks to do so: a thread that somebody above it
/// keeps from its CPU cannot, and what it saw is not wanted any more.
const ENDING_LOOKS: u64 = 20;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct SwitchPlan {
    /// How many threads hand over, each number by itself; 2 at least.
    pub threads: Vec<usize>,
    /// How.
    pub via: HandOver,
    /// What they are: `fifo:N` or `other`.
    pub service: Service,
    /// Where.
    pub cpu: Cpu,
    /// How long each stretch takes, pauses included.
    pub length: Nanos,
    /// How many stretches of each number.
    pub stretches: usize,
}

/// Measures hand-overs.
#[derive(Debug)]
pub struct SwitchBench {
    witness: Option<Witness>,
}

impl SwitchBench {
    /// Readies this process: its memory is locked as far as it may be. To be
    /// called before there are other threads.
    #[must_use]
    pub fn new() -> Self {
        // A limit is no reason not to measure: what is used was touched before.
        let _ = policy::lock_memory();
        Self {
            witness: Witness::settled().ok(),
        }
    }

    /// Measures all numbers of threads, until each has its stretches or `stop` is
    /// set; `done` is called after each stretch.
    pub fn measure(
        &mut self,
        plan: &SwitchPlan,
        stop: &AtomicBool,
        mut done: impl FnMut(),
    ) -> Vec<SwitchRun> {
        let empty = |&threads: &usize| SwitchRun {
            threads,
            via: plan.via,
            service: plan.service,
            absence: None,
            stretches: Vec::with_capacity(plan.stretches),
        };
        let mut runs: Vec<SwitchRun> = plan.threads.iter().map(empty).collect();
        for _ in 0..plan.stretches {
            for run in runs.iter_mut().filter(|run| run.absence.is_none()) {
                if stop.load(Ordering::Relaxed) {
                    return runs;
                }
                // What was ended early is no stretch of the same kind.
                let Some(result) = self.undisturbed(plan, run.threads, stop) else {
                    return runs;
                };
                match result {
                    Ok(stretch) => run.stretches.push(stretch),
                    Err(absence) => run.absence = Some(absence),
                }
                done();
            }
        }
        runs
    }

    /// A stretch in which laggard was not stopped; `None` once `stop` is set.
    fn undisturbed(
        &mut self,
        plan: &SwitchPlan,
        threads: usize,
        stop: &AtomicBool,
    ) -> Option<Result<SwitchStretch, Absence>> {
        loop {
            let result = self.stretch(plan, threads, stop);
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
        &mut self,
        plan: &SwitchPlan,
        threads: usize,
        stop: &AtomicBool,
    ) -> Result<SwitchStretch, Absence> {
        let token = token::token(plan.via, threads)
            .map_err(|err| refused(&format!("{} for each", plan.via), &err))?;
        let ring = Arc::new(Ring::new(threads, token, plan.length));
        let (tell, told) = channel();
        let mut started = Vec::with_capacity(threads);
        let mut refusal = None;
        for own in 0..threads {
            let (ring, tell, plan) = (Arc::clone(&ring), tell.clone(), plan.clone());
            let thread = std::thread::Builder::new()
                .name("lag/switch".into())
                .stack_size(policy::STACK_BYTES)
                .spawn(move || ring.take_part(own, &plan, &tell));
            match thread {
                Ok(thread) => started.push(thread),
                Err(err) => {
                    refusal = Some(refused("so many threads", &err));
                    break;
                }
            }
        }
        drop(tell);
        let readied = readied(&told, started.len(), stop);
        if let Some(absence) = refusal.or(readied.absence) {
            ring.begin(None);
            // Who has not come by now is not waited for.
            if readied.missing == 0 {
                join(started);
            }
            return Err(absence);
        }
        ring.begin(Some(clock::now() + Nanos::from_ms(2)));
        let found = gathered(&told, threads, &ring, plan.length, stop);
        if found.is_ok() {
            join(started);
        }
        found
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

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // It has said what there is to say, or was called off.
        let _ = thread.join();
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

/// Waits until every thread is what it is to be, but not for ever: somebody above
/// them may have their CPU.
fn readied(told: &Receiver<RingMessage>, threads: usize, stop: &AtomicBool) -> Readied {
    let mut readied = Readied {
        absence: None,
        missing: threads,
    };
    let mut looks = PATIENCE_LOOKS;
    while readied.missing > 0 && looks > 0 && !stop.load(Ordering::Relaxed) {
        match told.recv_timeout(LOOK) {
            Ok(message) => {
                readied.missing -= 1;
                if let RingMessage::Refused(absence) = message {
                    readied.absence.get_or_insert(absence);
                }
            }
            Err(RecvTimeoutError::Timeout) => looks -= 1,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if readied.missing > 0 {
        readied.absence.get_or_insert_with(|| Absence {
            reason: format!(
                "{} of {threads} threads did not get to their CPU",
                readied.missing
            ),
            ..unfinished()
        });
    }
    readied
}

/// What all threads saw. Who does not return is left behind: nothing can end it.
fn gathered(
    told: &Receiver<RingMessage>,
    threads: usize,
    ring: &Ring,
    length: Nanos,
    stop: &AtomicBool,
) -> Result<SwitchStretch, Absence> {
    let mut whole = SwitchStretch::default();
    let mut looks = length.ns() / 50_000_000 + PATIENCE_LOOKS;
    let mut missing = threads;
    while missing > 0 {
        match told.recv_timeout(LOOK) {
            Ok(RingMessage::Done(part)) => {
                whole.took_ns.extend(part.took_ns);
                whole.counted_by_kernel += part.counted_by_kernel;
                whole.left_out += part.left_out;
                whole.unkept += part.unkept;
                missing -= 1;
            }
            Ok(RingMessage::Broken(absence) | RingMessage::Refused(absence)) => {
                ring.end();
                return Err(absence);
            }
            Ok(RingMessage::Ready) => {}
            Err(RecvTimeoutError::Timeout) => {
                looks = looks.saturating_sub(1);
                if looks == 0 {
                    ring.end();
                    return Err(unfinished());
                }
                if stop.load(Ordering::Relaxed) {
                    ring.end();
                    looks = looks.min(ENDING_LOOKS);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Err(unfinished()),
        }
    }
    Ok(whole)
}

fn unfinished() -> Absence {
    Absence {
        reason: "the threads did not come to an end".into(),
        remedy: "look for what keeps them from their CPU".into(),
        lacks: Lacks::Machine,
    }
}

fn refused(what: &str, err: &io::Error) -> Absence {
    let lacks_rights = err.kind() == io::ErrorKind::PermissionDenied;
    let (lacks, remedy) = match lacks_rights {
        true => (
            Lacks::Rights,
            "run as root, or raise the limit (`ulimit -r`)",
        ),
        false => (
            Lacks::Machine,
            "ask for fewer threads, or raise the limit (`ulimit -a`)",
        ),
    };
    Absence {
        reason: format!("{what}: refused, {}", reason_of(err)),
        remedy: remedy.into(),
        lacks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody above them has their CPU: they never say that they are there.
    #[test]
    fn who_asks_for_the_end_does_not_wait_for_threads_that_do_not_come() {
        let (tell, told) = channel();
        tell.send(RingMessage::Ready).unwrap();

        let readied = readied(&told, 3, &AtomicBool::new(true));

        assert_eq!(readied.missing, 3);
        let reason = readied.absence.unwrap().reason;
        assert_eq!(reason, "3 of 3 threads did not get to their CPU");
    }

    /// Looks until all is given up otherwise: an hour of them and more.
    #[test]
    fn who_asks_for_the_end_does_not_wait_for_threads_that_do_not_end() {
        let (_tell, told) = channel();
        let ring = Ring::new(2, None, Nanos::ZERO);

        let hour = Nanos::from_secs(3_600);
        let found = gathered(&told, 2, &ring, hour, &AtomicBool::new(true));

        assert_eq!(found, Err(unfinished()));
    }

    #[test]
    fn all_that_come_are_heard_before_any_refusal_is_told() {
        let (tell, told) = channel();
        tell.send(RingMessage::Ready).unwrap();
        tell.send(RingMessage::Refused(unfinished())).unwrap();
        tell.send(RingMessage::Ready).unwrap();

        let readied = readied(&told, 3, &AtomicBool::new(false));

        assert_eq!((readied.missing, readied.absence), (0, Some(unfinished())));
    }
}
