//! Priority inversion: a low thread holds a lock, a high thread waits for it, and a middle
//! thread without a lock keeps the low one from the CPU.
//!
//! ```text
//! low     [holds][on]                    [on]
//! middle             [ computes         ]
//! high          ~waits~~~~~~~~~~~~~~~~~~~~~~~[has it]
//! ```
//!
//! The conductor has a lower priority than all three and is on the same CPU: when it runs, a
//! round is over.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use laggard_model::{Absence, Cpu, InversionRound, Nanos};

use super::order::CONDUCTOR;
use super::trial::{TrialEnding, TrialPart, play, refused};
use crate::system::clock;
use crate::system::door::Door;
use crate::system::lock::{ChosenMutex, LockProtocol};

const LOW: u8 = CONDUCTOR + 1;
const MIDDLE: u8 = CONDUCTOR + 2;
const HIGH: u8 = CONDUCTOR + 3;
/// CPU time that the low thread holds the lock.
pub(super) const HOLD: Nanos = Nanos::from_us(500);
/// Computing time of the middle thread.
pub(super) const MIDDLE_COMPUTES: Nanos = Nanos::from_ms(5);
/// Pause between two rounds.
const PAUSE: Nanos = Nanos::from_ms(15);
/// Time between two checks whether a delayed round is over.
const CHECK_INTERVAL: Nanos = Nanos::from_ms(1);

/// State that the threads share.
struct Scene {
    lock: ChosenMutex,
    low: Door,
    middle: Door,
    high: Door,
    is_over: Arc<AtomicBool>,
    /// Timestamps of a round, ns.
    asked: AtomicU64,
    got: AtomicU64,
    middle_began: AtomicU64,
    middle_ended: AtomicU64,
    /// Number of times that one of the three threads finished.
    ended: AtomicU64,
    /// Number of lock calls that failed.
    failed: AtomicU64,
}

/// Runs rounds with a lock of this kind, until `stop` is set.
pub(super) fn inversions(
    cpu: Cpu,
    protocol: LockProtocol,
    rounds: usize,
    stop: &AtomicBool,
) -> Result<Vec<InversionRound>, Absence> {
    let lock =
        ChosenMutex::new(protocol).map_err(|err| refused("a mutex with this protocol", &err))?;
    let is_over = Arc::new(AtomicBool::new(false));
    let scene = Arc::new(Scene {
        lock,
        low: Door::default(),
        middle: Door::default(),
        high: Door::default(),
        is_over: Arc::clone(&is_over),
        asked: AtomicU64::new(0),
        got: AtomicU64::new(0),
        middle_began: AtomicU64::new(0),
        middle_ended: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        failed: AtomicU64::new(0),
    });
    let part = |priority: u8, act: fn(&Scene)| {
        let scene = Arc::clone(&scene);
        TrialPart::new(priority, move |_| {
            act(&scene);
            Vec::new()
        })
    };
    let mut parts = vec![
        part(LOW, Scene::low),
        part(MIDDLE, Scene::middle),
        part(HIGH, Scene::high),
    ];
    let mut observed = Vec::with_capacity(rounds);
    let (conducted, ending_of) = (Arc::clone(&scene), scene);
    parts.push(TrialPart::new(CONDUCTOR, move |_| {
        conducted.conduct(rounds, &mut observed);
        observed
    }));
    let each = HOLD + MIDDLE_COMPUTES + PAUSE;
    let ending = TrialEnding {
        length: each * rounds as u64,
        stop,
        is_over,
    };
    let mut results = play(cpu, parts, &ending)?;
    if ending_of.failed.load(Ordering::Relaxed) > 0 {
        return Err(refused("the lock", &io::Error::other("a call failed")));
    }
    Ok(results.pop().unwrap_or_default())
}

impl Scene {
    fn low(&self) {
        while self.enters(&self.low) {
            let locked = self.lock.lock();
            self.high.open();
            self.middle.open();
            compute_for(HOLD);
            self.note(locked.and_then(|()| self.lock.unlock()));
            self.ended.fetch_add(1, Ordering::Release);
        }
    }

    fn middle(&self) {
        while self.enters(&self.middle) {
            let began = clock::now();
            self.middle_began.store(began.ns(), Ordering::Relaxed);
            while clock::now() < began + MIDDLE_COMPUTES {
                std::hint::spin_loop();
            }
            self.middle_ended
                .store(clock::now().ns(), Ordering::Relaxed);
            self.ended.fetch_add(1, Ordering::Release);
        }
    }

    fn high(&self) {
        while self.enters(&self.high) {
            self.asked.store(clock::now().ns(), Ordering::Relaxed);
            let locked = self.lock.lock();
            self.got.store(clock::now().ns(), Ordering::Relaxed);
            self.note(locked.and_then(|()| self.lock.unlock()));
            self.ended.fetch_add(1, Ordering::Release);
        }
    }

    /// Waits for the next round. Returns false after the last round.
    fn enters(&self, door: &Door) -> bool {
        door.pass();
        !self.is_over.load(Ordering::Acquire)
    }

    fn note(&self, result: io::Result<()>) {
        if result.is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn conduct(&self, rounds: usize, observed: &mut Vec<InversionRound>) {
        let read = |timestamp: &AtomicU64| Nanos::from_ns(timestamp.load(Ordering::Acquire));
        for _ in 0..rounds {
            clock::sleep_until(clock::now() + PAUSE);
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let before = self.ended.load(Ordering::Acquire);
            self.low.open();
            // A thread may be delayed, for example by a page fault.
            while self.ended.load(Ordering::Acquire) < before + 3
                && !self.is_over.load(Ordering::Relaxed)
            {
                clock::sleep_until(clock::now() + CHECK_INTERVAL);
            }
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let (requested, got) = (read(&self.asked), read(&self.got));
            let (began, ended) = (read(&self.middle_began), read(&self.middle_ended));
            observed.push(round(requested, got, began, ended));
        }
        self.is_over.store(true, Ordering::Release);
        for door in [&self.low, &self.middle, &self.high] {
            door.open();
        }
    }
}

fn round(requested: Nanos, got: Nanos, began: Nanos, ended: Nanos) -> InversionRound {
    InversionRound {
        waited: got.saturating_sub(requested),
        middle_ran: ended.min(got).saturating_sub(began),
        is_inverted: ended <= got,
    }
}

/// Computes for this much CPU time of the calling thread.
fn compute_for(time: Nanos) {
    let end = clock::own_cpu_time() + time;
    while clock::own_cpu_time() < end {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_is_inverted_if_the_middle_thread_finished_before_the_lock_was_acquired() {
        let ms = Nanos::from_ms;

        let plain = round(ms(1), ms(8), ms(2), ms(7));
        assert!(plain.is_inverted);
        assert_eq!((plain.waited, plain.middle_ran), (ms(7), ms(5)));

        let inherited = round(ms(1), ms(2), ms(3), ms(8));
        assert!(!inherited.is_inverted);
        assert_eq!(
            (inherited.waited, inherited.middle_ran),
            (ms(1), Nanos::ZERO)
        );
    }
}
