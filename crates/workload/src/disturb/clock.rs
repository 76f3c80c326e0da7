//! The clock of hits, and rounds by it.

use std::sync::atomic::Ordering;

use laggard_model::Nanos;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use super::{Hit, Site, Tell};

/// The longest sleep between two looks at the stop flag.
const SLICE: Nanos = Nanos::from_ms(50);

/// The time now, `CLOCK_MONOTONIC`.
pub(super) fn now() -> Nanos {
    read(ClockId::CLOCK_MONOTONIC)
}

/// The CPU time of the calling thread.
pub(super) fn own_cpu_time() -> Nanos {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock.now().expect("Linux always has this clock");
    let seconds = u64::try_from(time.tv_sec()).expect("a clock that counts from boot");
    let ns = u64::try_from(time.tv_nsec()).expect("a fraction of a second");
    Nanos::from_secs(seconds) + Nanos::from_ns(ns)
}

/// Computes until `end`.
pub(super) fn spin_until(end: Nanos) {
    while now() < end {
        std::hint::spin_loop();
    }
}

/// Sleeps until `end`. A signal only makes it look again.
pub(super) fn sleep_until(end: Nanos) {
    let time = TimeSpec::from_duration(end.into());
    while now() < end {
        sleep_once(&time);
    }
}

/// The same, but asks the kernel for a timer even where `end` has passed.
pub(super) fn sleep_once_until(end: Nanos) {
    sleep_once(&TimeSpec::from_duration(end.into()));
    sleep_until(end);
}

fn sleep_once(end: &TimeSpec) {
    // Interrupted by a signal: the caller sleeps on. Nothing else can fail
    // with a valid time and clock.
    let _ = clock_nanosleep(
        ClockId::CLOCK_MONOTONIC,
        ClockNanosleepFlags::TIMER_ABSTIME,
        end,
    );
}

/// The hits so far. Each is told to the caller of the fault once it is over.
pub(super) struct Log<'a> {
    pub(super) hits: Vec<Hit>,
    tell: &'a Tell<'a>,
}

impl Log<'_> {
    pub(super) fn push(&mut self, hit: Hit) {
        self.hits.push(hit);
        (self.tell)(&hit);
    }
}

impl Site<'_> {
    /// Whether the user wants an end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until `end`, or less when the user wants an end: then `false`.
    pub(super) fn wait_until(&self, end: Nanos) -> bool {
        while now() < end && !self.is_stopped() {
            sleep_until(end.min(now() + SLICE));
        }
        !self.is_stopped()
    }

    /// Calls `round` with the planned time of each round, once it has come,
    /// until the plan ends. Rounds whose time has passed are left out, never
    /// bunched.
    pub(super) fn rounds<E>(
        &self,
        mut round: impl FnMut(Nanos) -> Result<Hit, E>,
    ) -> Result<Vec<Hit>, E> {
        self.rounds_ahead(Nanos::ZERO, |next| round(next).map(Some))
    }

    /// The same, called `lead` before each round's time; a round may turn out
    /// to have no hit.
    pub(super) fn rounds_ahead<E>(
        &self,
        lead: Nanos,
        mut round: impl FnMut(Nanos) -> Result<Option<Hit>, E>,
    ) -> Result<Vec<Hit>, E> {
        let (every, begin) = (self.plan.every, now());
        let end = begin + self.plan.duration;
        let mut log = self.log();
        let mut next = begin + every;
        while next < end && self.wait_until(next.saturating_sub(lead)) {
            if let Some(hit) = round(next)? {
                log.push(hit);
            }
            let late = (now() + lead).saturating_sub(next).ns() / every.ns();
            next += every * (late + 1);
        }
        Ok(log.hits)
    }

    /// Room for this plan's hits.
    pub(super) fn log(&self) -> Log<'_> {
        Log {
            hits: Vec::with_capacity(self.expected_hits()),
            tell: self.tell,
        }
    }

    /// How many hits to make room for, so that no round allocates.
    fn expected_hits(&self) -> usize {
        const MOST: u64 = 1 << 20;
        let rounds = self.plan.duration.ns() / self.plan.every.ns().max(1);
        usize::try_from(rounds.min(MOST) + 1).unwrap_or_default()
    }
}
