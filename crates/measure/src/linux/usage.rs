//! Resource usage of this process.

use laggard_model::Nanos;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeSpec, TimeVal};
use nix::time::ClockId;

use super::thread::MeasuringThread;

/// Resource usage of the threads of this process at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) at: Nanos,
    /// CPU time of all threads, including ended ones.
    pub(super) whole_cpu: Nanos,
    /// CPU time of all threads except threads that compute all the time.
    pub(super) cpu: Nanos,
    /// CPU time of threads that compute all the time.
    pub(super) competing_cpu: Nanos,
    /// CPU time of measuring threads.
    pub(super) measuring_cpu: Nanos,
    /// Maximum resident size so far.
    pub(super) resident_bytes: u64,
}

impl Usage {
    /// Returns the usage at `at`, which is now. `measuring_cpu` is the time of measuring threads,
    /// `competing_cpu` the time of threads that compute all the time.
    pub(super) fn at(at: Nanos, measuring_cpu: Nanos, competing_cpu: Nanos) -> Self {
        let (cpu, resident_bytes) = getrusage(UsageWho::RUSAGE_SELF).map_or((0, 0), |usage| {
            (
                ns(usage.user_time()) + ns(usage.system_time()),
                usage.max_rss().cast_unsigned() * 1024,
            )
        });
        Self {
            at,
            whole_cpu: Nanos::from_ns(cpu),
            cpu: Nanos::from_ns(cpu).saturating_sub(competing_cpu),
            competing_cpu,
            measuring_cpu,
            resident_bytes,
        }
    }
}

fn ns(time: TimeVal) -> u64 {
    time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_usec().cast_unsigned() * 1_000
}

/// Returns the CPU time of a thread, or zero once it has ended.
pub(super) fn cpu_of(thread: &MeasuringThread) -> Nanos {
    /// Low bits of the ID of a thread's CPU clock, counted by the scheduler. The other bits are
    /// the inverted TID (`clock_getres(2)`).
    const THREAD_CPU: libc::clockid_t = 6;
    let clock = ClockId::from_raw((!thread.tid.0.cast_signed() << 3) | THREAD_CPU);
    let time = clock.now().unwrap_or(TimeSpec::new(0, 0));
    Nanos::from_ns(time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}
