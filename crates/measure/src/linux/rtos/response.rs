//! A thread that is woken by its timer, whatever runs on its CPU.
//!
//! Where nothing else does, a thread behind all others computes (`SCHED_IDLE`), so that
//! no CPU has to be woken up. It keeps no load away, as one of a real-time priority
//! would: what a load has the kernel do without giving way is met.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use laggard_model::{Absence, Cpu, Nanos};

use super::trial::{TrialEnding, TrialPart, play};
use crate::linux::{clock, policy};

/// Who computes is this while it begins and ends.
const LOWEST: u8 = 1;
/// A wakeup may come so late; then who computes gives up.
const LATEST: Nanos = Nanos::from_secs(1);

/// What the two share.
#[derive(Debug, Default)]
struct Shared {
    /// The kernel's number of who computes; 0: it does not yet.
    computing: AtomicI32,
    is_done: AtomicBool,
}

/// Wakeups by a timer that waits for nobody.
#[derive(Debug, Default)]
pub(super) struct ResponsesSeen {
    /// When each was due, and when its thread ran.
    pub(super) came: Vec<(Nanos, Nanos)>,
    /// Those that were due before the one before them had run.
    pub(super) missed: u64,
}

impl ResponsesSeen {
    /// Of all that the thread has come to, in order. One that was due while it still
    /// waited for the one before was no wakeup: nobody slept.
    fn of(all: impl IntoIterator<Item = (Nanos, Nanos)>) -> Self {
        let mut seen = Self::default();
        let mut free_from = Nanos::ZERO;
        for (due, ran) in all {
            match due > free_from {
                true => seen.came.push((due, ran)),
                false => seen.missed += 1,
            }
            free_from = ran;
        }
        seen
    }
}

/// When each wakeup was due that there was, and when its thread ran, until `stop` is
/// set. `due` are in order, from the beginning.
pub(super) fn responses(
    cpu: Cpu,
    woken: u8,
    due: Vec<Nanos>,
    stop: &AtomicBool,
) -> Result<ResponsesSeen, Absence> {
    let Some(&last) = due.last() else {
        return Ok(ResponsesSeen::default());
    };
    let (shared, is_over) = (
        Arc::new(Shared::default()),
        Arc::new(AtomicBool::new(false)),
    );
    let ending = TrialEnding {
        length: last + LATEST,
        stop,
        is_over: Arc::clone(&is_over),
    };
    let behind_all = {
        let shared = Arc::clone(&shared);
        TrialPart::new(LOWEST, move |begin| {
            compute(&shared, begin + last + LATEST);
            Vec::new()
        })
    };
    let high = TrialPart::new(woken, move |begin| {
        let mut seen = Vec::with_capacity(due.len());
        for due in due {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            clock::sleep_until(begin + due);
            seen.push((begin + due, clock::now()));
        }
        end(&shared);
        seen
    });
    let mut seen = play(cpu, vec![behind_all, high], &ending)?;
    Ok(ResponsesSeen::of(seen.pop().unwrap_or_default()))
}

/// Computes until it is done, `over` at the latest.
fn compute(shared: &Shared, over: Nanos) {
    // SAFETY: takes nothing.
    let own = unsafe { libc::gettid() };
    shared.computing.store(own, Ordering::Release);
    if policy::schedule_idly().is_ok() {
        while !shared.is_done.load(Ordering::Acquire) && clock::now() < over {
            std::hint::spin_loop();
        }
    }
    // As it began: whoever else has changed that shows. Refused, that shows, too.
    let _ = policy::schedule_other_as(own, LOWEST);
}

/// Ends who computes. Behind a load it would not come to see that for seconds.
fn end(shared: &Shared) {
    shared.is_done.store(true, Ordering::Release);
    let computing = shared.computing.load(Ordering::Acquire);
    if computing != 0 {
        // Where that is refused it ends when it has its turn.
        let _ = policy::schedule_other_as(computing, LOWEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 ms late, which two more wakeups fall into; the next is its own again.
    #[test]
    fn wakeups_that_fell_into_the_wait_for_the_one_before_are_missed_and_no_wakeups() {
        let us = Nanos::from_us;
        let all = [
            (us(1_000), us(1_005)),
            (us(2_000), us(5_000)),
            (us(3_000), us(5_001)),
            (us(4_500), us(5_002)),
            (us(6_000), us(6_005)),
        ];

        let seen = ResponsesSeen::of(all);

        assert_eq!(seen.came, [all[0], all[1], all[4]]);
        assert_eq!(seen.missed, 2);
    }
}
