//! Threads of one trial: they begin together, or not at all.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use laggard_model::{Absence, Cpu, Lacks, Nanos, Service};

use super::guard::RealTimeGuard;
use crate::host::{Files, Rights};
use crate::linux::footing::Footing;
use crate::linux::{clock, policy, reason_of, threads};

/// How often is looked whether a trial is over.
const LOOK: Duration = Duration::from_millis(50);
/// A trial may take longer than planned by so many looks. Looks, not time:
/// laggard may be stopped.
const PATIENCE_LOOKS: u64 = 200;
/// Who is asked to end has so many looks to do so.
const ENDING_LOOKS: u64 = 20;
/// From when all are ready until they begin.
const BEFORE_IT_BEGINS: Nanos = Nanos::from_ms(2);

/// What one thread does from the beginning of the trial on.
type Act<T> = Box<dyn FnOnce(Nanos) -> T + Send>;

/// A thread of a trial.
pub(super) struct TrialPart<T> {
    /// Its real-time priority.
    pub(super) priority: u8,
    /// What it does.
    pub(super) act: Act<T>,
}

impl<T> TrialPart<T> {
    pub(super) fn new(priority: u8, act: impl FnOnce(Nanos) -> T + Send + 'static) -> Self {
        Self {
            priority,
            act: Box::new(act),
        }
    }
}

/// What a thread says to who started it.
enum Told<T> {
    Ready,
    Refused(Absence),
    Done(usize, T),
}

/// How long a trial takes, and who ends it early.
pub(super) struct TrialEnding<'a> {
    /// Planned.
    pub(super) length: Nanos,
    /// Set when the user has enough.
    pub(super) stop: &'a AtomicBool,
    /// What the threads look at.
    pub(super) is_over: Arc<AtomicBool>,
}

/// Lets all parts play on one CPU. What they return, in their order.
pub(super) fn play<T: Send + 'static>(
    cpu: Cpu,
    parts: Vec<TrialPart<T>>,
    ending: &TrialEnding<'_>,
) -> Result<Vec<T>, Absence> {
    // Loads that run meanwhile were started before, and are none of its business.
    let _guard = RealTimeGuard::new().ok();
    let begin = Arc::new(OnceLock::new());
    let (tell, told) = channel();
    let count = parts.len();
    let mut started = Ok(());
    for (number, part) in parts.into_iter().enumerate() {
        let (begin, tell) = (Arc::clone(&begin), tell.clone());
        let part = move || take_part(number, part, cpu, &begin, &tell);
        let thread = policy::thread("lag/rtos").and_then(|thread| thread.spawn(part));
        if let Err(err) = thread {
            started = Err(refused("a thread", &err));
            break;
        }
    }
    drop(tell);
    let readied = started.and_then(|()| all_ready(&told, count, ending.stop));
    let at = readied
        .as_ref()
        .ok()
        .map(|()| clock::now() + BEFORE_IT_BEGINS);
    // Said once. `None` sends them home.
    let _ = begin.set(at);
    readied?;
    gathered(&told, count, ending)
}

fn take_part<T>(
    number: usize,
    part: TrialPart<T>,
    cpu: Cpu,
    begin: &OnceLock<Option<Nanos>>,
    tell: &Sender<Told<T>>,
) {
    let (footing, message) = match ready(cpu, part.priority) {
        Ok(footing) => (Some(footing), Told::Ready),
        Err(absence) => (None, Told::Refused(absence)),
    };
    // Whoever is gone has given up waiting, here and below.
    let _ = tell.send(message);
    if let (Some(begin), Some(footing)) = (*begin.wait(), footing) {
        let done = (part.act)(begin);
        let _ = tell.send(match footing.changed() {
            Some(absence) => Told::Refused(absence),
            None => Told::Done(number, done),
        });
    }
}

fn ready(cpu: Cpu, priority: u8) -> Result<Footing, Absence> {
    policy::block_signals().map_err(|err| refused("blocking signals", &err))?;
    policy::pin(cpu).map_err(|err| refused(&format!("CPU {cpu}"), &err))?;
    be(priority).map_err(|err| no_priority(&err))?;
    policy::refuse_timer_slack();
    policy::touch_stack();
    Ok(Footing::on(cpu))
}

/// Gives the calling thread this real-time priority.
pub(super) fn be(priority: u8) -> io::Result<()> {
    policy::schedule_as(Service::Fifo(priority))
}

/// A real-time priority was refused.
fn no_priority(err: &io::Error) -> Absence {
    let (obstacle, help) = threads::refusal(err, &Rights::read(&Files::default()));
    obstacle.absence(&help)
}

/// Waits for all, but not for ever: somebody above them may have their CPU.
fn all_ready<T>(told: &Receiver<Told<T>>, count: usize, stop: &AtomicBool) -> Result<(), Absence> {
    let mut missing = count;
    let mut looks = PATIENCE_LOOKS;
    while missing > 0 {
        match told.recv_timeout(LOOK) {
            Ok(Told::Ready) => missing -= 1,
            Ok(Told::Refused(absence)) => return Err(absence),
            Err(RecvTimeoutError::Timeout) if looks > 0 && !stop.load(Ordering::Relaxed) => {
                looks -= 1;
            }
            Ok(Told::Done(..)) | Err(_) => {
                return Err(Absence {
                    reason: format!("{missing} of {count} threads did not get to their CPU"),
                    ..unfinished()
                });
            }
        }
    }
    Ok(())
}

/// Who does not return is left behind: nothing can end it.
fn gathered<T>(
    told: &Receiver<Told<T>>,
    count: usize,
    ending: &TrialEnding<'_>,
) -> Result<Vec<T>, Absence> {
    let mut looks = ending.length.ns() / 50_000_000 + PATIENCE_LOOKS;
    let mut all: Vec<Option<T>> = (0..count).map(|_| None).collect();
    while all.iter().any(Option::is_none) {
        match told.recv_timeout(LOOK) {
            Ok(Told::Done(number, result)) => all[number] = Some(result),
            Ok(Told::Ready) => {}
            Ok(Told::Refused(absence)) => {
                ending.is_over.store(true, Ordering::Release);
                return Err(absence);
            }
            Err(RecvTimeoutError::Timeout) => {
                looks = looks.saturating_sub(1);
                if looks == 0 {
                    ending.is_over.store(true, Ordering::Release);
                    return Err(unfinished());
                }
                if ending.stop.load(Ordering::Relaxed) {
                    ending.is_over.store(true, Ordering::Release);
                    looks = looks.min(ENDING_LOOKS);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Err(unfinished()),
        }
    }
    Ok(all.into_iter().flatten().collect())
}

fn unfinished() -> Absence {
    Absence {
        reason: "the threads did not come to an end".into(),
        remedy: "look for what keeps them from their CPU".into(),
        lacks: Lacks::Machine,
    }
}

/// What could not be had but a priority.
pub(super) fn refused(what: &str, err: &io::Error) -> Absence {
    let lacks_rights = err.kind() == io::ErrorKind::PermissionDenied;
    let (lacks, remedy) = match lacks_rights {
        true => (Lacks::Rights, "run as root"),
        false => (Lacks::Machine, "raise the limit (`ulimit -a` lists them)"),
    };
    Absence {
        reason: format!("{what}: refused, {}", reason_of(err)),
        remedy: remedy.into(),
        lacks,
    }
}
