//! What this program's threads have used of the CPUs so far, asked by them, too: no lock,
//! no allocation.

use laggard_model::Nanos;

/// CPU time of all threads of this program.
pub(crate) fn used() -> Nanos {
    use nix::time::{ClockId, clock_gettime};
    // It exists on every Linux.
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Nanos::ZERO, |time| {
        Nanos::from_secs(time.tv_sec().cast_unsigned())
            + Nanos::from_ns(time.tv_nsec().cast_unsigned())
    })
}
