//! Clocks: their stated resolution and their behaviour.

use laggard_model::{ClockSeen, Nanos};

use super::sleeps::nanosleep;
use super::wait::{read, timespec};
use laggard_measure::linux::clock;
use laggard_measure::min_step;

const CLOCKS: [(&str, libc::clockid_t); 7] = [
    ("CLOCK_MONOTONIC", libc::CLOCK_MONOTONIC),
    ("CLOCK_MONOTONIC_RAW", libc::CLOCK_MONOTONIC_RAW),
    ("CLOCK_MONOTONIC_COARSE", libc::CLOCK_MONOTONIC_COARSE),
    ("CLOCK_REALTIME", libc::CLOCK_REALTIME),
    ("CLOCK_REALTIME_COARSE", libc::CLOCK_REALTIME_COARSE),
    ("CLOCK_BOOTTIME", libc::CLOCK_BOOTTIME),
    ("CLOCK_TAI", libc::CLOCK_TAI),
];

/// Reads the clocks of the system in turn, each repeatedly for 40 ms.
pub fn clocks() -> Vec<ClockSeen> {
    let readings = CLOCKS.into_iter().map(|(name, id)| ClockSeen {
        name: name.into(),
        stated_ns: stated(id),
        step_ns: min_step(clock::now, || read(id).ok()),
        // The sleep has length zero: it only checks whether the clock supports sleeping.
        sleeps: nanosleep(id, 0, timespec(Nanos::ZERO)).is_ok(),
    });
    readings.collect()
}

fn stated(clock: libc::clockid_t) -> Option<Nanos> {
    let mut step = timespec(Nanos::ZERO);
    // SAFETY: `step` is valid for writes.
    let result = unsafe { libc::clock_getres(clock, &raw mut step) };
    let ns = step.tv_sec.cast_unsigned() * 1_000_000_000 + step.tv_nsec.cast_unsigned();
    (result == 0).then(|| Nanos::from_ns(ns))
}
