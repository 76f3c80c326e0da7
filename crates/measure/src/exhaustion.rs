//! Stop of a measurement that starves its collector.
//!
//! Measuring threads run before `SCHED_OTHER` threads. With too many expiries they leave the
//! collector no CPU time, so that it neither empties the rings nor notices the end. The threads
//! therefore check when the collector last ran, which costs a read of memory. They give up if it
//! stays away and they used most of the CPUs' time themselves. If other programs keep the
//! collector away, the threads continue, because that situation is to be measured.

use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::Nanos;

/// Maximum absence of the collector before the threads check their own use.
const MAX_ABSENCE: Nanos = Nanos::from_secs(3);
/// Inverse of a fraction of the measured CPUs' time. The threads give up if they use more.
const INVERSE_MAX_SHARE: u64 = 2;

/// State that the collector and the measuring threads share.
#[derive(Debug)]
pub struct Exhaustion {
    cpus: u64,
    /// Returns the CPU time of all threads of this program.
    cpu_time: fn() -> Nanos,
    /// Time in ns of the collector's last run; 0 before the first.
    last_run: AtomicU64,
    /// CPU time in ns that this program had used by then.
    used: AtomicU64,
    /// Time in ns when the threads gave up; 0 if they did not.
    given_up: AtomicU64,
}

impl Exhaustion {
    /// Creates the state for a measurement of `cpus` CPUs.
    pub fn new(cpus: usize, cpu_time: fn() -> Nanos) -> Self {
        Self {
            cpus: cpus as u64,
            cpu_time,
            last_run: AtomicU64::new(0),
            used: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
        }
    }

    /// Records a run of the collector at `now`.
    pub fn note(&self, now: Nanos) {
        self.used.store((self.cpu_time)().ns(), Ordering::Relaxed);
        self.last_run.store(now.ns(), Ordering::Release);
    }

    /// Returns whether a measuring thread is to end at `now`. Takes no lock and allocates
    /// nothing.
    pub fn is_hopeless(&self, now: Nanos) -> bool {
        let last_run = self.last_run.load(Ordering::Acquire);
        let away = now.ns().saturating_sub(last_run);
        if last_run == 0 || away < MAX_ABSENCE.ns() {
            return false;
        }
        let own = (self.cpu_time)()
            .ns()
            .saturating_sub(self.used.load(Ordering::Relaxed));
        let is_hopeless = self.is_mostly_own(own, away);
        if is_hopeless {
            // The first thread stores its time. The time of another thread would do as well.
            let _ =
                self.given_up
                    .compare_exchange(0, now.ns(), Ordering::Relaxed, Ordering::Relaxed);
        }
        is_hopeless
    }

    const fn is_mostly_own(&self, own_ns: u64, wall_ns: u64) -> bool {
        own_ns.saturating_mul(INVERSE_MAX_SHARE) > wall_ns.saturating_mul(self.cpus)
    }

    /// Returns when the threads gave up, if they did.
    pub fn given_up(&self) -> Option<Nanos> {
        let time = self.given_up.load(Ordering::Relaxed);
        (time > 0).then(|| Nanos::from_ns(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::used::used;

    const START: Nanos = Nanos::from_secs(100);

    #[test]
    fn running_collector_is_no_reason_to_end() {
        let exhaustion = Exhaustion::new(2, used);
        exhaustion.note(START);

        assert!(!exhaustion.is_hopeless(START + Nanos::from_ms(2_900)));
        assert_eq!(exhaustion.given_up(), None);
    }

    #[test]
    fn measurement_continues_before_the_first_run_of_the_collector() {
        assert!(!Exhaustion::new(1, used).is_hopeless(START));
    }

    /// This test uses almost no CPU time.
    #[test]
    fn collector_delayed_by_others_is_no_reason_to_end() {
        let exhaustion = Exhaustion::new(1, used);
        exhaustion.note(START);

        assert!(!exhaustion.is_hopeless(START + Nanos::from_secs(3600)));
    }

    #[test]
    fn measurement_that_takes_most_of_its_cpus_ends() {
        let exhaustion = Exhaustion::new(2, used);
        let second = 1_000_000_000;

        assert!(!exhaustion.is_mostly_own(second, second));
        assert!(exhaustion.is_mostly_own(second + 1, second));
    }

    #[test]
    fn first_thread_that_gives_up_sets_the_time() {
        let exhaustion = Exhaustion::new(0, used);
        // With zero CPUs, any CPU time of this test is too much.
        exhaustion.note(START);
        let mut sum = 0_u64;
        while used().ns() == exhaustion.used.load(Ordering::Relaxed) {
            sum = std::hint::black_box(sum + 1);
        }

        assert!(exhaustion.is_hopeless(START + Nanos::from_secs(4)));
        assert!(exhaustion.is_hopeless(START + Nanos::from_secs(5)));
        assert_eq!(exhaustion.given_up(), Some(START + Nanos::from_secs(4)));
    }

    /// With zero CPUs, any CPU time of this program is most of it.
    #[test]
    fn first_of_several_threads_sets_the_time() {
        let exhaustion = Exhaustion::new(0, used);
        exhaustion.note(START);
        let ends = [MAX_ABSENCE, MAX_ABSENCE * 2].map(|away| START + away);

        // The clock of this process's CPU time advances with every reading.
        assert!(ends.iter().all(|&now| exhaustion.is_hopeless(now)));

        assert_eq!(exhaustion.given_up(), Some(ends[0]));
    }
}
