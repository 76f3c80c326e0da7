//! Wakeups of a thread by its timer while anything runs on its CPU.
//!
//! If nothing else runs, a `SCHED_IDLE` thread computes, so that no wakeup includes an idle
//! exit. Unlike a real-time thread it does not keep a load from the CPU, so the test meets
//! kernel code of the load that does not yield.

use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::atomic::AtomicI32;
use std::sync::atomic::{AtomicBool, Ordering};

use laggard_model::{Absence, Cpu, Nanos};

use super::trial::{TrialEnding, TrialPart, play};
use crate::system::clock;
#[cfg(target_os = "linux")]
use crate::system::policy;

/// Real-time priority of the computing thread at its start and end.
const LOWEST: u8 = 1;
/// Maximum latency of the last wakeup. The computing thread then gives up.
const MAX_LATENCY: Nanos = Nanos::from_secs(1);

/// State that both threads share.
#[derive(Debug, Default)]
struct SharedState {
    /// TID of the computing thread; 0 until it starts.
    #[cfg(target_os = "linux")]
    computing: AtomicI32,
    is_done: AtomicBool,
}

/// Wakeups by a timer that does not wait for the thread.
#[derive(Debug, Default)]
pub(super) struct Responses {
    /// Expiry of the timer, and time when the thread ran.
    pub(super) wakeups: Vec<(Nanos, Nanos)>,
    /// Number of expiries before the preceding wakeup had run.
    pub(super) missed: u64,
}

impl Responses {
    /// Separates wakeups from missed expiries. At a missed expiry the thread was not
    /// asleep.
    fn new(expiries: impl IntoIterator<Item = (Nanos, Nanos)>) -> Self {
        let mut responses = Self::default();
        let mut free_from = Nanos::ZERO;
        for (due, ran) in expiries {
            if due > free_from {
                responses.wakeups.push((due, ran));
            } else {
                responses.missed += 1;
            }
            free_from = ran;
        }
        responses
    }
}

/// Measures wakeups at the times `due`, which are in order and count from the start, until
/// `stop` is set.
pub(super) fn responses(
    cpu: Cpu,
    woken: u8,
    due: Vec<Nanos>,
    stop: &AtomicBool,
) -> Result<Responses, Absence> {
    let Some(&last) = due.last() else {
        return Ok(Responses::default());
    };
    let (shared, is_over) = (
        Arc::new(SharedState::default()),
        Arc::new(AtomicBool::new(false)),
    );
    let ending = TrialEnding {
        length: last + MAX_LATENCY,
        stop,
        is_over: Arc::clone(&is_over),
    };
    // Each thread of the real-time class of Windows would keep the load from the CPU.
    let idle = cfg!(target_os = "linux").then(|| {
        let shared = Arc::clone(&shared);
        TrialPart::new(LOWEST, move |begin| {
            compute(&shared, begin + last + MAX_LATENCY);
            Vec::new()
        })
    });
    let high = TrialPart::new(woken, move |begin| {
        let mut observed = Vec::with_capacity(due.len());
        for due in due {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            clock::sleep_until(begin + due);
            observed.push((begin + due, clock::now()));
        }
        end(&shared);
        observed
    });
    let mut results = play(cpu, idle.into_iter().chain([high]).collect(), &ending)?;
    Ok(Responses::new(results.pop().unwrap_or_default()))
}

#[cfg(windows)]
fn compute(_: &SharedState, _: Nanos) {}

/// Computes until the wakeups are done, but not beyond `over`.
#[cfg(target_os = "linux")]
fn compute(shared: &SharedState, over: Nanos) {
    // SAFETY: without arguments.
    let own = unsafe { libc::gettid() };
    shared.computing.store(own, Ordering::Release);
    if policy::schedule_idly().is_ok() {
        while !shared.is_done.load(Ordering::Acquire) && clock::now() < over {
            std::hint::spin_loop();
        }
    }
    // The trial checks that the first priority is unchanged, also if this fails.
    let _ = policy::schedule_other_as(own, LOWEST);
}

/// Ends the computing thread. Under a load it might not get the CPU for seconds.
fn end(shared: &SharedState) {
    shared.is_done.store(true, Ordering::Release);
    #[cfg(target_os = "linux")]
    {
        let computing = shared.computing.load(Ordering::Acquire);
        if computing != 0 {
            // If this fails, the thread ends when it gets the CPU.
            let _ = policy::schedule_other_as(computing, LOWEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second wakeup is 3 ms late, and two expiries fall into this time.
    #[test]
    fn expiries_during_the_wait_for_the_preceding_wakeup_are_missed() {
        let us = Nanos::from_us;
        let times = [
            (us(1_000), us(1_005)),
            (us(2_000), us(5_000)),
            (us(3_000), us(5_001)),
            (us(4_500), us(5_002)),
            (us(6_000), us(6_005)),
        ];

        let responses = Responses::new(times);

        assert_eq!(responses.wakeups, [times[0], times[1], times[4]]);
        assert_eq!(responses.missed, 2);
    }
}
