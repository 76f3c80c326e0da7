//! Clock of everything that runs here, and sleeping until a time.

use std::sync::atomic::{AtomicBool, Ordering};

use laggard_bpf::clock::{of_kernel, of_process};
use laggard_model::Nanos;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

/// Returns the current time, `CLOCK_MONOTONIC` as the kernel counts it.
pub(crate) fn now() -> Nanos {
    Nanos::from_ns(of_kernel(read(ClockId::CLOCK_MONOTONIC).ns()))
}

/// Returns the timer setting that expires at `time`.
pub(crate) fn timer_at(time: Nanos) -> TimeSpec {
    TimeSpec::from_duration(Nanos::from_ns(of_process(time.ns())).into())
}

/// Returns the CPU time of the calling thread.
pub(crate) fn own_cpu_time() -> Nanos {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock.now().expect("Linux always has this clock");
    let seconds = u64::try_from(time.tv_sec()).expect("a clock that counts from boot");
    let ns = u64::try_from(time.tv_nsec()).expect("a fraction of a second");
    Nanos::from_secs(seconds) + Nanos::from_ns(ns)
}

/// Computes until `end`.
pub(crate) fn spin_until(end: Nanos) {
    while now() < end {
        std::hint::spin_loop();
    }
}

/// Sleeps until `end`, also across signals.
pub(crate) fn sleep_until(end: Nanos) {
    let time = timer_at(end);
    while now() < end {
        sleep_once(&time);
    }
}

/// Sleeps until `end` or a signal. Asks the kernel for a timer even if `end` has
/// passed.
pub(crate) fn sleep_once_until(end: Nanos) {
    sleep_once(&timer_at(end));
    sleep_until(end);
}

fn sleep_once(end: &TimeSpec) {
    // Interrupted by a signal: the caller continues to sleep. Nothing else can fail
    // with a valid time and clock.
    let _ = clock_nanosleep(
        ClockId::CLOCK_MONOTONIC,
        ClockNanosleepFlags::TIMER_ABSTIME,
        end,
    );
}

/// Longest sleep between two checks of a stop flag.
const SLICE: Nanos = Nanos::from_ms(50);

/// Sleeps until `end`. Returns `false` early if `stop` is set.
pub(crate) fn sleep_unless(stop: &AtomicBool, end: Nanos) -> bool {
    while now() < end && !stop.load(Ordering::Relaxed) {
        sleep_until(end.min(now() + SLICE));
    }
    !stop.load(Ordering::Relaxed)
}
