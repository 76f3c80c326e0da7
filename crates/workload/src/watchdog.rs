//! The watchdog: the kernel ends this process should one of its real-time
//! threads run on without a pause.
//!
//! `RLIMIT_RTTIME` counts the CPU time that a real-time thread uses without
//! sleeping; above the limit comes SIGXCPU, which ends the process. Unlike a
//! thread of ours, the kernel needs no free CPU to step in.

use laggard_model::Nanos;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Time beyond the planned one before the kernel steps in.
const SLACK: Nanos = Nanos::from_ms(500);

/// A limit that is put back when this value is dropped.
#[derive(Debug)]
pub(crate) struct Watchdog {
    soft_before: u64,
    hard: u64,
}

impl Watchdog {
    /// Allows real-time threads of this process to run for `longest`, and
    /// some slack, without sleeping.
    pub(crate) fn new(longest: Nanos) -> Result<Self, Errno> {
        let (soft_before, hard) = getrlimit(Resource::RLIMIT_RTTIME)?;
        let limit_us = (longest + SLACK).ns() / 1000;
        setrlimit(Resource::RLIMIT_RTTIME, soft_before.min(limit_us), hard)?;
        Ok(Self { soft_before, hard })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // What was below the hard limit before still is: this cannot fail.
        let _ = setrlimit(Resource::RLIMIT_RTTIME, self.soft_before, self.hard);
    }
}
