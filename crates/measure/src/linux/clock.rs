//! `CLOCK_MONOTONIC`, as the kernel counts it: in a time namespace this
//! process's own is shifted, and the stages' instants are not.

use laggard_bpf::clock::{of_kernel, of_process};
use laggard_model::Nanos;

/// The time now.
pub fn now() -> Nanos {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writes. The call cannot fail: the clock
    //         exists on every Linux and the pointer is good.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let own = time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned();
    Nanos::from_ns(of_kernel(own))
}

/// How long a tick of the kernel is, at which its scheduler looks whether a
/// thread has had its turn: what the coarse clock says of itself.
pub fn tick() -> Nanos {
    let mut step = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: as in `now`.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step) };
    Nanos::from_ns(step.tv_sec.cast_unsigned() * 1_000_000_000 + step.tv_nsec.cast_unsigned())
}

/// The CPU time of the calling thread.
pub fn own_cpu_time() -> Nanos {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: as in `now`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Nanos::from_ns(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

/// For how long the machine was suspended since it started: what the clock that
/// goes on meanwhile is ahead.
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

/// Sleeps until `time`, or returns at once where it has passed.
pub fn sleep_until(time: Nanos) {
    let until = of_process(time.ns());
    let until = libc::timespec {
        tv_sec: (until / 1_000_000_000) as libc::time_t,
        tv_nsec: (until % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `until` is valid for reads; no remaining time is asked for.
    //         Signals are blocked in measuring threads, so the only ways out
    //         are the expiry and an invalid time, which this is not.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const until,
            std::ptr::null_mut(),
        )
    };
}
