//! Host settings that spoil latency, each with a command against it.
//!
//! What other checkers (rtcqs, realtimeconfigquickscan) advise is included
//! where it bears on how late code runs.

mod cpus;
mod kernel;
mod power;
mod rights;
mod work;

use laggard_model::{Caveat, CpuList, Host, Service};

use super::Rights;

/// What a check looks at.
struct Setup<'a> {
    host: &'a Host,
    rights: &'a Rights,
    /// The CPUs to be measured.
    cpus: &'a CpuList,
    /// The services to be measured.
    services: &'a [Service],
}

impl Setup<'_> {
    /// The highest real-time priority asked for.
    fn priority(&self) -> Option<u8> {
        let priorities = self.services.iter().filter_map(|service| match service {
            Service::Fifo(priority) | Service::Lent(priority) => Some(*priority),
            Service::Irq
            | Service::Softirq
            | Service::Worker
            | Service::Deadline
            | Service::Other
            | Service::Nice(_)
            | Service::Slice(_)
            | Service::Realtime(_)
            | Service::Mmcss
            | Service::Dpc
            | Service::SystemThread(_)
            | Service::Kthread
            | Service::Task(_)
            | Service::Traced(_) => None,
        });
        priorities.max()
    }

    /// Those of `cpus` that are to be measured.
    fn measured(&self, cpus: &CpuList) -> CpuList {
        let chosen = cpus.as_slice().iter().copied();
        chosen.filter(|&cpu| self.cpus.contains(cpu)).collect()
    }

    /// Whether an option is built in.
    fn has_option(&self, name: &str) -> bool {
        let line = format!("CONFIG_{name}=y");
        self.host.config.contains(&line)
    }
}

/// What this process's limit on CPU time does to whatever it measures, or runs
/// meanwhile; `None`: it has none.
pub fn quota(rights: &Rights) -> Option<Caveat> {
    rights::of_quota(rights)
}

/// One thing to look for.
type Check = fn(&Setup<'_>) -> Option<Caveat>;

/// Every setting of this host that spoils the measuring of `services` on
/// `cpus`, the worst first.
///
/// A setting that could not be read gives no caveat: nothing is guessed.
pub fn caveats(host: &Host, rights: &Rights, cpus: &CpuList, services: &[Service]) -> Vec<Caveat> {
    let setup = Setup {
        host,
        rights,
        cpus,
        services,
    };
    let all: [&[Check]; 5] = [
        &rights::CHECKS,
        &cpus::CHECKS,
        &kernel::CHECKS,
        &power::CHECKS,
        &work::CHECKS,
    ];
    let mut found: Vec<Caveat> = all
        .into_iter()
        .flatten()
        .filter_map(|check| check(&setup))
        .collect();
    found.sort_by_key(|caveat| caveat.kind.severity());
    found
}
