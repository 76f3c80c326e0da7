//! A thread that is woken by its timer, against one of another priority that
//! computes on the same CPU.
//!
//! ```text
//! low    ...[computes  ~~~~~~~~~~~~]            ...
//! high           due ->|       [ran]  sleeps
//! ```
//!
//! The low one computes from a while before the wakeup until it sees that the high
//! one ran, or for no longer than a bound: on a system that does not preempt, the
//! high one runs only then. Where wakeups follow each other within that while, it
//! does not sleep between them: what keeps the CPU just before a wakeup is then
//! seen, too, and not left out because the low one was late itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use laggard_model::{Absence, Cpu, Nanos, RtosWakeup};

use super::trial::{TrialEnding, TrialPart, be, play};
use crate::linux::clock;

/// The low one computes from so long before the wakeup on.
pub(super) const BEFORE: Nanos = Nanos::from_us(1_500);

/// One round that is planned.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedDuel {
    /// The priority of who computes.
    pub(super) computing: u8,
    /// The priority of who is woken.
    pub(super) woken: u8,
    /// When, from the beginning.
    pub(super) due: Nanos,
    /// It computes for no longer than this beyond the wakeup.
    pub(super) bound: Nanos,
}

/// What was seen of a chunk of rounds.
#[derive(Debug)]
pub(super) struct DuelsDone {
    /// When each was due, and what was seen.
    pub(super) rounds: Vec<(Nanos, RtosWakeup)>,
    /// Those in which nobody computed when it was due.
    pub(super) unkept: u64,
}

/// What the two share.
#[derive(Debug, Default)]
struct Arena {
    /// The round in which the low one computes, from 1; 0: it does not.
    computing: AtomicU64,
    /// The round in which it began to compute last, and when.
    began: AtomicU64,
    began_at: AtomicU64,
    /// How many rounds the high one has come to.
    served: AtomicU64,
}

/// What the high one saw, before anything is made of it.
#[derive(Clone, Copy)]
struct Came {
    ran: Nanos,
    /// `began` of the arena, `began_at`, and `computing`.
    began: u64,
    began_at: Nanos,
    computing: u64,
}

/// Plays the rounds.
pub(super) fn duels(
    cpu: Cpu,
    rounds: &[PlannedDuel],
    stop: &AtomicBool,
) -> Result<DuelsDone, Absence> {
    let rounds: Arc<[PlannedDuel]> = rounds.into();
    let Some((first, last)) = rounds.first().zip(rounds.last()) else {
        return Ok(DuelsDone {
            rounds: Vec::new(),
            unkept: 0,
        });
    };
    let (arena, is_over) = (Arc::new(Arena::default()), Arc::new(AtomicBool::new(false)));
    let ending = TrialEnding {
        length: last.due + last.bound,
        stop,
        is_over: Arc::clone(&is_over),
    };
    let (computing, woken) = (first.computing, first.woken);
    let low = {
        let (arena, rounds, is_over) = (Arc::clone(&arena), rounds.clone(), Arc::clone(&is_over));
        TrialPart::new(computing, move |begin| {
            compute(&arena, &rounds, begin, &is_over);
            (begin, Vec::new())
        })
    };
    let high = {
        let rounds = rounds.clone();
        let mut came = Vec::with_capacity(rounds.len());
        TrialPart::new(woken, move |begin| {
            come(&arena, &rounds, begin, &is_over, &mut came);
            (begin, came)
        })
    };
    let mut seen = play(cpu, vec![low, high], &ending)?;
    let (begin, came) = seen.pop().unwrap_or_default();
    let mut done = DuelsDone {
        rounds: Vec::with_capacity(came.len()),
        unkept: 0,
    };
    for (number, (planned, came)) in (1..).zip(rounds.iter().zip(came)) {
        let due = begin + planned.due;
        if came.began != number || came.began_at > due {
            done.unkept += 1;
            continue;
        }
        let round = RtosWakeup {
            running: planned.computing,
            woken: planned.woken,
            latency: came.ran.saturating_sub(due),
            preempted: came.computing == number,
            steal: None,
        };
        done.rounds.push((due, round));
    }
    Ok(done)
}

fn compute(arena: &Arena, rounds: &[PlannedDuel], begin: Nanos, is_over: &AtomicBool) {
    let mut priority = 0;
    for (number, round) in (1..).zip(rounds) {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        // Who had one before may have this: it was tried. Otherwise the round is one
        // of the priority before, and judged as such by nobody: it cannot happen.
        if priority != round.computing && be(round.computing).is_ok() {
            priority = round.computing;
        }
        let due = begin + round.due;
        clock::sleep_until(due.saturating_sub(BEFORE));
        arena.began_at.store(clock::now().ns(), Ordering::Relaxed);
        arena.began.store(number, Ordering::Relaxed);
        arena.computing.store(number, Ordering::Release);
        let over = due + round.bound;
        while clock::now() < over && arena.served.load(Ordering::Acquire) < number {
            std::hint::spin_loop();
        }
        arena.computing.store(0, Ordering::Release);
    }
    be_first(rounds.first().map(|round| round.computing));
}

fn come(
    arena: &Arena,
    rounds: &[PlannedDuel],
    begin: Nanos,
    is_over: &AtomicBool,
    seen: &mut Vec<Came>,
) {
    let mut priority = 0;
    for (number, round) in (1..).zip(rounds) {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        if priority != round.woken && be(round.woken).is_ok() {
            priority = round.woken;
        }
        clock::sleep_until(begin + round.due);
        let ran = clock::now();
        seen.push(Came {
            ran,
            computing: arena.computing.load(Ordering::Acquire),
            began: arena.began.load(Ordering::Relaxed),
            began_at: Nanos::from_ns(arena.began_at.load(Ordering::Relaxed)),
        });
        arena.served.store(number, Ordering::Release);
    }
    be_first(rounds.first().map(|round| round.woken));
}

/// What the thread was when it began: whoever else has changed that shows.
fn be_first(priority: Option<u8>) {
    // It had that one.
    let _ = priority.map(be);
}
