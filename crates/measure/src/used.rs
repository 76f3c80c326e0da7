//! CPU time of this program's threads so far. Measuring threads also call this: it does not lock or
//! allocate.

use laggard_model::Nanos;

/// Returns the CPU time of all threads of this program.
pub(crate) fn used() -> Nanos {
    use nix::time::{ClockId, clock_gettime};
    // This clock exists on every Linux.
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Nanos::ZERO, |time| {
        Nanos::from_secs(time.tv_sec().cast_unsigned())
            + Nanos::from_ns(time.tv_nsec().cast_unsigned())
    })
}
