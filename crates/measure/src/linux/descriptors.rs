//! How many files this process may have open: every CPU takes some (rings,
//! what waits on them, samplers), and the usual limit of 1024 is that of 1995.

use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::lines::CpuLines;

/// The soft limit that this process was started with.
static AT_START: OnceLock<u64> = OnceLock::new();

/// Files that are open however many CPUs are measured: objects of programs,
/// the recording, standard streams. 110 were seen.
const FIXED: u64 = 110;
/// For each CPU, besides its threads: a stack sampler's event, a counter of
/// the firmware's.
const OF_CPU: u64 = 3;
/// For each thread that a softirq wakes: a ring and what waits on it.
const OF_DEFERRED: u64 = 2;

/// Raises the soft limit to the hard one, which takes no right. Returns the
/// limit that then holds.
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

/// The soft limit on open files that this process was started with, for
/// programs that it starts: some cannot cope with more than 1024. `None`: it
/// was not changed.
pub fn usual_descriptors() -> Option<u64> {
    AT_START.get().copied()
}

/// How many files measuring so many CPUs has open, about; `each`: what is
/// measured on one.
pub(super) fn needed(cpus: usize, each: &CpuLines) -> u64 {
    let deferred = each.deferred_threads().count() as u64;
    FIXED + cpus as u64 * (OF_CPU + OF_DEFERRED * deferred)
}

#[cfg(test)]
mod tests {
    use laggard_model::{Cpu, Every, Service};

    use super::*;
    use crate::linux::lines::Deferral;

    #[test]
    fn a_large_machine_takes_more_than_the_usual_limit() {
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
