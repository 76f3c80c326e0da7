//! Limit on the run time of real-time threads of this process (`RLIMIT_RTTIME`). The kernel
//! ends the process if a thread runs longer without a pause. A watchdog thread would need a
//! free CPU.

use laggard_model::Nanos;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Maximum run time: ten times the longest computation of a test thread.
const MAX_RUN_TIME: Nanos = Nanos::from_ms(500);

/// The limit of this process, which is restored on drop.
#[derive(Debug)]
pub(super) struct RealTimeGuard {
    soft_before: u64,
    hard: u64,
}

impl RealTimeGuard {
    pub(super) fn new() -> Result<Self, Errno> {
        let (soft_before, hard) = getrlimit(Resource::RLIMIT_RTTIME)?;
        let limit_us = MAX_RUN_TIME.ns() / 1_000;
        setrlimit(Resource::RLIMIT_RTTIME, soft_before.min(limit_us), hard)?;
        Ok(Self { soft_before, hard })
    }
}

impl Drop for RealTimeGuard {
    fn drop(&mut self) {
        // Cannot fail: the value is still below the hard limit.
        let _ = setrlimit(Resource::RLIMIT_RTTIME, self.soft_before, self.hard);
    }
}
