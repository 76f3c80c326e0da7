//! Should a real-time thread of this process run on without a pause, the kernel
//! ends the process (`RLIMIT_RTTIME`). A thread of ours that watched would need
//! a free CPU to step in.

use laggard_model::Nanos;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// No thread here computes for a tenth of it at a stretch.
const LONGEST: Nanos = Nanos::from_ms(500);

/// The limit; put back when this value is dropped.
#[derive(Debug)]
pub(super) struct RealTimeGuard {
    soft_before: u64,
    hard: u64,
}

impl RealTimeGuard {
    pub(super) fn new() -> Result<Self, Errno> {
        let (soft_before, hard) = getrlimit(Resource::RLIMIT_RTTIME)?;
        let limit_us = LONGEST.ns() / 1_000;
        setrlimit(Resource::RLIMIT_RTTIME, soft_before.min(limit_us), hard)?;
        Ok(Self { soft_before, hard })
    }
}

impl Drop for RealTimeGuard {
    fn drop(&mut self) {
        // What was below the hard limit before still is: this cannot fail.
        let _ = setrlimit(Resource::RLIMIT_RTTIME, self.soft_before, self.hard);
    }
}
