//! What this process has used so far.

use laggard_model::Nanos;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeSpec, TimeVal};
use nix::time::ClockId;

use super::thread::MeasuringThread;

/// What the threads of this process had used at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) at: Nanos,
    /// Of all threads, also of those that have ended.
    pub(super) whole_cpu: Nanos,
    /// Of all threads but those that compute all the time.
    pub(super) cpu: Nanos,
    /// Of those that compute all the time.
    pub(super) competing_cpu: Nanos,
    /// Of those that measure.
    pub(super) measuring_cpu: Nanos,
    /// The largest resident size until then.
    pub(super) resident_bytes: u64,
}

impl Usage {
    /// What has been used by now, as of `at`; by those that measure:
    /// `measuring_cpu`, and by those that compute all the time: `competing_cpu`.
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

/// CPU time of a thread; none once it has ended.
pub(super) fn cpu_of(thread: &MeasuringThread) -> Nanos {
    /// Of a clock's number: a thread's, counted by the scheduler. The other
    /// bits are those of its number, inverted (`clock_getres(2)`).
    const THREAD_CPU: libc::clockid_t = 6;
    let clock = ClockId::from_raw((!thread.tid.0.cast_signed() << 3) | THREAD_CPU);
    let time = clock.now().unwrap_or(TimeSpec::new(0, 0));
    Nanos::from_ns(time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}
