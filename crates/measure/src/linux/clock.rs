//! `CLOCK_MONOTONIC` of the kernel. In a time namespace the clock of this process is shifted, and
//! the timestamps of the stages are not.

use laggard_bpf::clock::{of_kernel, of_process};
use laggard_model::Nanos;

/// Returns the current time.
pub fn now() -> Nanos {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writes. The call cannot fail: the clock exists on every Linux
    // and the pointer is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let own = time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned();
    Nanos::from_ns(of_kernel(own))
}

/// Returns the length of a scheduler tick, which is the resolution of the coarse clock.
pub fn tick() -> Nanos {
    let mut step = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: as in `now`.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step) };
    Nanos::from_ns(step.tv_sec.cast_unsigned() * 1_000_000_000 + step.tv_nsec.cast_unsigned())
}

/// Returns the CPU time of the calling thread.
pub fn own_cpu_time() -> Nanos {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: as in `now`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Nanos::from_ns(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

/// Returns the time that the machine was suspended since boot: the difference to the clock that
/// includes suspend.
pub fn suspended() -> Nanos {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: as in `now`; the clock exists since Linux 2.6.39.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let on = time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned();
    Nanos::from_ns(on).saturating_sub(now())
}

/// Sleeps until `time`. Returns immediately if `time` has passed.
pub fn sleep_until(time: Nanos) {
    let until = of_process(time.ns());
    let until = libc::timespec {
        tv_sec: (until / 1_000_000_000) as libc::time_t,
        tv_nsec: (until % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `until` is valid for reads, and no remaining time is requested. Signals are blocked
    // in measuring threads, so the call ends only at the expiry or for an invalid time, and this
    // time is valid.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const until,
            std::ptr::null_mut(),
        )
    };
}
