//! Ends a measurement that takes the machine from its own collector.
//!
//! Measuring threads come before normal ones: asked too often, they leave the
//! collector no time, so that it neither empties the rings nor hears that it
//! is to end. So they look themselves when it last came, which costs them a
//! read of memory, and give up where it stays away and most of the CPUs' time
//! was theirs. A collector that somebody else keeps away is no reason: what
//! happens then is what is to be measured.

use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::Nanos;

/// How long the collector may stay away before the threads ask why.
const PATIENCE: Nanos = Nanos::from_secs(3);
/// They give up where more than one in so many nanoseconds was their own, of
/// all CPUs that are measured.
const OWN_IN: u64 = 2;

/// What the collector and the measuring threads know of each other.
#[derive(Debug)]
pub struct Exhaustion {
    cpus: u64,
    /// Returns the CPU time of all threads of this program.
    cpu_time: fn() -> Nanos,
    /// When the collector last came, ns; 0: not yet.
    looked: AtomicU64,
    /// What this program had used by then, ns.
    used: AtomicU64,
    /// When the threads gave up, ns; 0: they did not.
    given_up: AtomicU64,
}

impl Exhaustion {
    /// Returns the state before a measurement of `cpus` CPUs. `cpu_time` takes no lock and
    /// allocates nothing.
    pub fn new(cpus: usize, cpu_time: fn() -> Nanos) -> Self {
        Self {
            cpus: cpus as u64,
            cpu_time,
            looked: AtomicU64::new(0),
            used: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
        }
    }

    /// The collector has come, at `now`.
    pub fn note(&self, now: Nanos) {
        self.used.store((self.cpu_time)().ns(), Ordering::Relaxed);
        self.looked.store(now.ns(), Ordering::Release);
    }

    /// Whether a measuring thread is to end, at `now`. No lock, no allocation.
    pub fn is_hopeless(&self, now: Nanos) -> bool {
        let looked = self.looked.load(Ordering::Acquire);
        let away = now.ns().saturating_sub(looked);
        if looked == 0 || away < PATIENCE.ns() {
            return false;
        }
        let own = (self.cpu_time)()
            .ns()
            .saturating_sub(self.used.load(Ordering::Relaxed));
        let is_hopeless = self.is_mostly_own(own, away);
        if is_hopeless {
            // The first to find out says when; another's time is as good.
            let _ =
                self.given_up
                    .compare_exchange(0, now.ns(), Ordering::Relaxed, Ordering::Relaxed);
        }
        is_hopeless
    }

    const fn is_mostly_own(&self, own_ns: u64, wall_ns: u64) -> bool {
        own_ns.saturating_mul(OWN_IN) > wall_ns.saturating_mul(self.cpus)
    }

    /// When the threads gave up, if they did.
    pub fn given_up(&self) -> Option<Nanos> {
        let at = self.given_up.load(Ordering::Relaxed);
        (at > 0).then(|| Nanos::from_ns(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::used::used;

    const START: Nanos = Nanos::from_secs(100);

    #[test]
    fn a_collector_that_comes_is_no_reason_to_end() {
        let exhaustion = Exhaustion::new(2, used);
        exhaustion.note(START);

        assert!(!exhaustion.is_hopeless(START + Nanos::from_ms(2_900)));
        assert_eq!(exhaustion.given_up(), None);
    }

    #[test]
    fn before_the_collector_first_came_there_is_nothing_to_judge_by() {
        assert!(!Exhaustion::new(1, used).is_hopeless(START));
    }

    /// This test takes no CPU time to speak of.
    #[test]
    fn a_collector_that_others_keep_away_is_no_reason_to_end() {
        let exhaustion = Exhaustion::new(1, used);
        exhaustion.note(START);

        assert!(!exhaustion.is_hopeless(START + Nanos::from_secs(3600)));
    }

    #[test]
    fn measuring_that_takes_most_of_its_cpus_is_hopeless() {
        let exhaustion = Exhaustion::new(2, used);
        let second = 1_000_000_000;

        assert!(!exhaustion.is_mostly_own(second, second));
        assert!(exhaustion.is_mostly_own(second + 1, second));
    }

    #[test]
    fn the_first_thread_that_gives_up_says_when() {
        let exhaustion = Exhaustion::new(0, used);
        // Zero CPUs: any time that this test takes is too much.
        exhaustion.note(START);
        let mut sum = 0_u64;
        while used().ns() == exhaustion.used.load(Ordering::Relaxed) {
            sum = std::hint::black_box(sum + 1);
        }

        assert!(exhaustion.is_hopeless(START + Nanos::from_secs(4)));
        assert!(exhaustion.is_hopeless(START + Nanos::from_secs(5)));
        assert_eq!(exhaustion.given_up(), Some(START + Nanos::from_secs(4)));
    }

    /// With no CPU to measure, whatever this program takes is most of it.
    #[test]
    fn the_first_to_find_out_says_when() {
        let exhaustion = Exhaustion::new(0, used);
        exhaustion.note(START);
        let ends = [PATIENCE, PATIENCE * 2].map(|away| START + away);

        // The clock of this process's CPU time goes on with every reading.
        assert!(ends.iter().all(|&now| exhaustion.is_hopeless(now)));

        assert_eq!(exhaustion.given_up(), Some(ends[0]));
    }
}
