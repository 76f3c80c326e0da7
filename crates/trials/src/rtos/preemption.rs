//! Wakeups of a thread by its timer while a thread of another priority computes on the same
//! CPU.
//!
//! ```text
//! low    ...[computes  ~~~~~~~~~~~~]            ...
//! high           due ->|       [ran]  sleeps
//! ```
//!
//! The low thread starts to compute some time before the wakeup. It stops when it sees
//! that the high thread ran, or after a limit, which is when a system without preemption
//! runs the high thread. If wakeups follow each other closely, the low thread does not sleep
//! between them. Activity that keeps the CPU just before a wakeup is then measured, and not
//! excluded because it also delayed the low thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use laggard_model::{Absence, Cpu, Nanos, RtosWakeup};

use super::trial::{TrialEnding, TrialPart, play, set_priority};
use crate::system::clock;

/// The low thread starts to compute this time before the wakeup.
pub(super) const LEAD: Nanos = Nanos::from_us(1_500);

/// Plan of one wakeup.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedWakeup {
    /// Priority of the computing thread.
    pub(super) running: u8,
    /// Priority of the woken thread.
    pub(super) woken: u8,
    /// Expiry of the timer, from the start of the trial.
    pub(super) due: Nanos,
    /// The computing thread gives up this time after the expiry.
    pub(super) max_compute: Nanos,
}

/// Wakeups of one trial.
#[derive(Debug)]
pub(super) struct WakeupChunk {
    /// Expiry of the timer and the wakeup.
    pub(super) wakeups: Vec<(Nanos, RtosWakeup)>,
    /// Number of wakeups at whose expiry the low thread did not compute.
    pub(super) excluded: u64,
}

/// State that both threads share. Rounds count from 1.
#[derive(Debug, Default)]
struct Arena {
    /// Round of the computing low thread; 0 while it does not compute.
    computing: AtomicU64,
    /// Last round when the low thread started to compute.
    began: AtomicU64,
    /// Time of that start, ns.
    began_at: AtomicU64,
    /// Number of rounds when the high thread ran.
    served: AtomicU64,
}

/// Observations of the high thread.
#[derive(Clone, Copy)]
struct Observation {
    ran: Nanos,
    /// `began`, `began_at` and `computing` of the arena at that time.
    began: u64,
    began_at: Nanos,
    computing: u64,
}

/// Runs the planned wakeups.
pub(super) fn wakeups(
    cpu: Cpu,
    rounds: &[PlannedWakeup],
    stop: &AtomicBool,
) -> Result<WakeupChunk, Absence> {
    let rounds: Arc<[PlannedWakeup]> = rounds.into();
    let Some((first, last)) = rounds.first().zip(rounds.last()) else {
        return Ok(WakeupChunk {
            wakeups: Vec::new(),
            excluded: 0,
        });
    };
    let (arena, is_over) = (Arc::new(Arena::default()), Arc::new(AtomicBool::new(false)));
    let ending = TrialEnding {
        length: last.due + last.max_compute,
        stop,
        is_over: Arc::clone(&is_over),
    };
    let (running, woken) = (first.running, first.woken);
    let low = {
        let (arena, rounds, is_over) = (Arc::clone(&arena), rounds.clone(), Arc::clone(&is_over));
        TrialPart::new(running, move |begin| {
            compute(&arena, &rounds, begin, &is_over);
            (begin, Vec::new())
        })
    };
    let high = {
        let rounds = rounds.clone();
        let mut observations = Vec::with_capacity(rounds.len());
        TrialPart::new(woken, move |begin| {
            observe(&arena, &rounds, begin, &is_over, &mut observations);
            (begin, observations)
        })
    };
    let mut results = play(cpu, vec![low, high], &ending)?;
    let (begin, observations) = results.pop().unwrap_or_default();
    let mut done = WakeupChunk {
        wakeups: Vec::with_capacity(observations.len()),
        excluded: 0,
    };
    for (number, (planned, observed)) in (1..).zip(rounds.iter().zip(observations)) {
        let due = begin + planned.due;
        if observed.began != number || observed.began_at > due {
            done.excluded += 1;
            continue;
        }
        let wakeup = RtosWakeup {
            running: planned.running,
            woken: planned.woken,
            latency: observed.ran.saturating_sub(due),
            preempted: observed.computing == number,
            steal: None,
        };
        done.wakeups.push((due, wakeup));
    }
    Ok(done)
}

fn compute(arena: &Arena, rounds: &[PlannedWakeup], begin: Nanos, is_over: &AtomicBool) {
    let mut priority = 0;
    for (number, round) in (1..).zip(rounds) {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        // Cannot fail: each priority was set before in a test of the permission.
        if priority != round.running && set_priority(round.running).is_ok() {
            priority = round.running;
        }
        let due = begin + round.due;
        clock::sleep_until(due.saturating_sub(LEAD));
        arena.began_at.store(clock::now().ns(), Ordering::Relaxed);
        arena.began.store(number, Ordering::Relaxed);
        arena.computing.store(number, Ordering::Release);
        let over = due + round.max_compute;
        while clock::now() < over && arena.served.load(Ordering::Acquire) < number {
            std::hint::spin_loop();
        }
        arena.computing.store(0, Ordering::Release);
    }
    restore(rounds.first().map(|round| round.running));
}

fn observe(
    arena: &Arena,
    rounds: &[PlannedWakeup],
    begin: Nanos,
    is_over: &AtomicBool,
    observations: &mut Vec<Observation>,
) {
    let mut priority = 0;
    for (number, round) in (1..).zip(rounds) {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        if priority != round.woken && set_priority(round.woken).is_ok() {
            priority = round.woken;
        }
        clock::sleep_until(begin + round.due);
        let ran = clock::now();
        observations.push(Observation {
            ran,
            computing: arena.computing.load(Ordering::Acquire),
            began: arena.began.load(Ordering::Relaxed),
            began_at: Nanos::from_ns(arena.began_at.load(Ordering::Relaxed)),
        });
        arena.served.store(number, Ordering::Release);
    }
    restore(rounds.first().map(|round| round.woken));
}

/// Restores the first priority of the thread, so that the trial detects a change by another
/// program.
fn restore(priority: Option<u8>) {
    // Cannot fail: the thread had this priority.
    let _ = priority.map(set_priority);
}
