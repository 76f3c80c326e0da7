//! Threads of one trial, which start together or not at all.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use laggard_model::{Absence, Cpu, Lacks, Nanos, Service};

#[cfg(target_os = "linux")]
use super::guard::RealTimeGuard;
use crate::footing::ThreadPlacement;
#[cfg(target_os = "linux")]
use crate::system::threads;
use crate::system::{clock, policy, reason_of};
#[cfg(target_os = "linux")]
use laggard_measure::host::{Files, Rights};

/// Time between two checks whether a trial is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of checks after the end of the planned length. This is not a time, because
/// laggard may be stopped.
const MAX_EXTRA_CHECKS: u64 = 200;
/// Maximum number of checks within which threads must end after a stop.
const MAX_STOP_CHECKS: u64 = 20;
/// Time from the moment when all threads are ready to their start.
const START_DELAY: Nanos = Nanos::from_ms(2);

/// Function of a thread. Its argument is the start of the trial.
type Act<T> = Box<dyn FnOnce(Nanos) -> T + Send>;

/// Thread of a trial.
pub(super) struct TrialPart<T> {
    /// Real-time priority.
    pub(super) priority: u8,
    /// Function of the thread.
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

/// Message of a thread to the one that started it.
enum PartMessage<T> {
    Ready,
    Refused(Absence),
    Done(usize, T),
}

/// Length of a trial and the flags that end it early.
pub(super) struct TrialEnding<'a> {
    /// Planned length.
    pub(super) length: Nanos,
    /// Flag that the user sets with Ctrl-C.
    pub(super) stop: &'a AtomicBool,
    /// Flag that ends the threads.
    pub(super) is_over: Arc<AtomicBool>,
}

/// Runs all parts on one CPU and returns their results, in order.
pub(super) fn play<T: Send + 'static>(
    cpu: Cpu,
    parts: Vec<TrialPart<T>>,
    ending: &TrialEnding<'_>,
) -> Result<Vec<T>, Absence> {
    // The limit does not apply to loads, which were started before.
    #[cfg(target_os = "linux")]
    let _guard = RealTimeGuard::new().ok();
    let begin = Arc::new(OnceLock::new());
    let (sender, messages) = channel();
    let count = parts.len();
    let mut started = Ok(());
    for (number, part) in parts.into_iter().enumerate() {
        let (begin, sender) = (Arc::clone(&begin), sender.clone());
        let part = move || take_part(number, part, cpu, &begin, &sender);
        let thread = policy::thread("lag/rtos").and_then(|thread| thread.spawn(part));
        if let Err(err) = thread {
            started = Err(refused("a thread", &err));
            break;
        }
    }
    drop(sender);
    let readied = started.and_then(|()| all_ready(&messages, count, ending.stop));
    let start = readied.as_ref().ok().map(|()| clock::now() + START_DELAY);
    // This is the only call. `None` ends the threads.
    let _ = begin.set(start);
    readied?;
    results(&messages, count, ending)
}

fn take_part<T>(
    number: usize,
    part: TrialPart<T>,
    cpu: Cpu,
    begin: &OnceLock<Option<Nanos>>,
    tell: &Sender<PartMessage<T>>,
) {
    let (footing, message) = match ready(cpu, part.priority) {
        Ok(footing) => (Some(footing), PartMessage::Ready),
        Err(absence) => (None, PartMessage::Refused(absence)),
    };
    // A receiver that is gone has given up, here and below.
    let _ = tell.send(message);
    if let (Some(begin), Some(footing)) = (*begin.wait(), footing) {
        let done = (part.act)(begin);
        let _ = tell.send(match footing.changed() {
            Some(absence) => PartMessage::Refused(absence),
            None => PartMessage::Done(number, done),
        });
    }
}

fn ready(cpu: Cpu, priority: u8) -> Result<ThreadPlacement, Absence> {
    policy::block_signals().map_err(|err| refused("blocking signals", &err))?;
    policy::pin(cpu).map_err(|err| refused(&format!("CPU {cpu}"), &err))?;
    set_priority(priority).map_err(|err| no_priority(&err))?;
    policy::refuse_timer_slack();
    policy::touch_stack();
    Ok(ThreadPlacement::on(cpu))
}

/// Sets the real-time priority of the calling thread.
pub(super) fn set_priority(priority: u8) -> io::Result<()> {
    policy::schedule_as(if cfg!(windows) {
        Service::Realtime(priority)
    } else {
        Service::Fifo(priority)
    })
}

/// Describes the refusal of a real-time priority.
#[cfg(windows)]
fn no_priority(err: &io::Error) -> Absence {
    Absence::new(
        format!("real-time priorities: {}", reason_of(err)),
        "run as administrator",
        Lacks::Rights,
    )
}

/// Describes the refusal of a real-time priority.
#[cfg(target_os = "linux")]
fn no_priority(err: &io::Error) -> Absence {
    let (obstacle, help) = threads::refusal(err, &Rights::read(&Files::default()));
    obstacle.absence(&help)
}

/// Waits until all threads are ready, with a limit: a thread of higher priority may keep the
/// CPU.
fn all_ready<T>(
    told: &Receiver<PartMessage<T>>,
    count: usize,
    stop: &AtomicBool,
) -> Result<(), Absence> {
    let mut missing = count;
    let mut checks = MAX_EXTRA_CHECKS;
    while missing > 0 {
        match told.recv_timeout(CHECK_INTERVAL) {
            Ok(PartMessage::Ready) => missing -= 1,
            Ok(PartMessage::Refused(absence)) => return Err(absence),
            Err(RecvTimeoutError::Timeout) if checks > 0 && !stop.load(Ordering::Relaxed) => {
                checks -= 1;
            }
            Ok(PartMessage::Done(..)) | Err(_) => {
                return Err(Absence {
                    reason: format!("{missing} of {count} test threads did not get CPU time"),
                    ..unfinished()
                });
            }
        }
    }
    Ok(())
}

/// Collects the results. A thread that does not return is abandoned, because nothing can end
/// it.
fn results<T>(
    told: &Receiver<PartMessage<T>>,
    count: usize,
    ending: &TrialEnding<'_>,
) -> Result<Vec<T>, Absence> {
    let mut checks = ending.length.ns() / 50_000_000 + MAX_EXTRA_CHECKS;
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    while results.iter().any(Option::is_none) {
        match told.recv_timeout(CHECK_INTERVAL) {
            Ok(PartMessage::Done(number, result)) => results[number] = Some(result),
            Ok(PartMessage::Ready) => {}
            Ok(PartMessage::Refused(absence)) => {
                ending.is_over.store(true, Ordering::Release);
                return Err(absence);
            }
            Err(RecvTimeoutError::Timeout) => {
                checks = checks.saturating_sub(1);
                if checks == 0 {
                    ending.is_over.store(true, Ordering::Release);
                    return Err(unfinished());
                }
                if ending.stop.load(Ordering::Relaxed) {
                    ending.is_over.store(true, Ordering::Release);
                    checks = checks.min(MAX_STOP_CHECKS);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Err(unfinished()),
        }
    }
    Ok(results.into_iter().flatten().collect())
}

fn unfinished() -> Absence {
    Absence::new(
        "the test threads did not finish",
        "find the program that keeps the CPU",
        Lacks::Machine,
    )
}

/// Describes the refusal of anything but a priority.
pub(super) fn refused(what: &str, err: &io::Error) -> Absence {
    let lacks_rights = err.kind() == io::ErrorKind::PermissionDenied;
    let (lacks, remedy) = if lacks_rights {
        (
            Lacks::Rights,
            if cfg!(windows) {
                "run as administrator"
            } else {
                "run as root"
            },
        )
    } else {
        (
            Lacks::Machine,
            if cfg!(windows) {
                "end other programs"
            } else {
                "raise the limit (`ulimit -a` lists them)"
            },
        )
    };
    Absence::new(format!("{what}: {}", reason_of(err)), remedy, lacks)
}
