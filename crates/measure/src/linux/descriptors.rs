//! Limit on open files of this process. Every CPU takes some (rings, epoll descriptors,
//! samplers), and the usual limit of 1024 is too small for large machines.

use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::lines::CpuLines;

/// Soft limit at the start of this process.
static AT_START: OnceLock<u64> = OnceLock::new();

/// Number of open files independent of the number of CPUs: objects of programs, the recording,
/// standard streams. Measured: 110.
const FIXED_FILES: u64 = 110;
/// Number of open files per CPU without its threads: the event of a stack sampler, a counter of
/// the firmware.
const FILES_PER_CPU: u64 = 3;
/// Number of open files per thread that a softirq wakes: a ring and an epoll descriptor.
const FILES_PER_DEFERRED: u64 = 2;

/// Raises the soft limit to the hard limit. This works without rights. Returns the new limit.
pub(super) fn allow_all() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return u64::MAX;
    };
    AT_START.get_or_init(|| soft);
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

/// Returns the soft limit at the start of this process. Programs that it starts get this limit,
/// because some do not support more than 1024. `None` if it was not changed.
pub fn usual_descriptors() -> Option<u64> {
    AT_START.get().copied()
}

/// Estimates the number of open files for a measurement of `cpus` CPUs. `each` are the lines of
/// one CPU.
pub(super) fn needed(cpus: usize, each: &CpuLines) -> u64 {
    let deferred = each.deferred_threads().count() as u64;
    FIXED_FILES + cpus as u64 * (FILES_PER_CPU + FILES_PER_DEFERRED * deferred)
}

#[cfg(test)]
mod tests {
    use laggard_model::{Cpu, Every, Service};

    use super::*;
    use crate::linux::lines::Deferral;

    #[test]
    fn large_machine_needs_more_than_the_usual_limit() {
        let services = [
            Service::Irq,
            Service::Softirq,
            Service::Worker,
            Service::Fifo(90),
            Service::Fifo(50),
            Service::Other,
        ];
        let each = CpuLines::new(Cpu(0), &services, &Every::default(), Deferral::Callback);

        // Counted in /proc/PID/fd: 119 and 128.
        assert_eq!(needed(1, &each), 119);
        assert_eq!(needed(2, &each), 128);
        assert!(needed(101, &each) < 1024);
        assert!(needed(102, &each) > 1024);
    }
}
