//! Watchdog: the kernel ends this process if one of its real-time threads runs without
//! a pause.
//!
//! `RLIMIT_RTTIME` limits the CPU time that a real-time thread uses without sleeping.
//! Beyond the limit the kernel sends SIGXCPU, which ends the process. Unlike a thread
//! of this process, the kernel does not need a free CPU for that.

use laggard_model::Nanos;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Time beyond the planned one before the kernel acts.
const SLACK: Nanos = Nanos::from_ms(500);

/// Limit that is restored when this value is dropped.
#[derive(Debug)]
pub(crate) struct Watchdog {
    soft_before: u64,
    hard: u64,
}

impl Watchdog {
    /// Permits real-time threads of this process to run for `longest`, plus some slack,
    /// without sleeping.
    pub(crate) fn new(longest: Nanos) -> Result<Self, Errno> {
        let (soft_before, hard) = getrlimit(Resource::RLIMIT_RTTIME)?;
        let limit_us = (longest + SLACK).ns() / 1000;
        setrlimit(Resource::RLIMIT_RTTIME, soft_before.min(limit_us), hard)?;
        Ok(Self { soft_before, hard })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The old limit was below the hard limit and still is, so this cannot fail.
        let _ = setrlimit(Resource::RLIMIT_RTTIME, self.soft_before, self.hard);
    }
}
