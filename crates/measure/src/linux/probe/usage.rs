//! What this process has used so far.

use laggard_model::Nanos;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// What all threads of this process had used at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) at: Nanos,
    pub(super) cpu: Nanos,
    /// The largest resident size until then.
    pub(super) resident_bytes: u64,
}

impl Usage {
    /// What has been used by now, as of `at`.
    pub(super) fn at(at: Nanos) -> Self {
        let (cpu, resident_bytes) = getrusage(UsageWho::RUSAGE_SELF).map_or((0, 0), |usage| {
            (
                ns(usage.user_time()) + ns(usage.system_time()),
                usage.max_rss().cast_unsigned() * 1024,
            )
        });
        Self {
            at,
            cpu: Nanos::from_ns(cpu),
            resident_bytes,
        }
    }
}

fn ns(time: TimeVal) -> u64 {
    time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_usec().cast_unsigned() * 1_000
}
