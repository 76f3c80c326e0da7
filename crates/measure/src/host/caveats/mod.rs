//! Host settings that harm latency, each with a command to change it.
//!
//! Checks of other tools (rtcqs, realtimeconfigquickscan) are included if they concern latency.

mod cpus;
mod kernel;
mod power;
mod rights;
mod work;

use laggard_model::{Caveat, CpuList, Host, Service};

use super::Rights;

/// Input of a check.
struct Setup<'a> {
    host: &'a Host,
    rights: &'a Rights,
    cpus: &'a CpuList,
    services: &'a [Service],
}

impl Setup<'_> {
    /// Returns the highest requested real-time priority.
    fn priority(&self) -> Option<u8> {
        let priorities = self.services.iter().filter_map(|service| match service {
            Service::Fifo(priority) | Service::Lent(priority) => Some(*priority),
            _ => None,
        });
        priorities.max()
    }

    /// Returns the CPUs in `cpus` that are to be measured.
    fn measured(&self, cpus: &CpuList) -> CpuList {
        let chosen = cpus.as_slice().iter().copied();
        chosen.filter(|&cpu| self.cpus.contains(cpu)).collect()
    }

    /// Returns whether an option is built in.
    fn has_option(&self, name: &str) -> bool {
        let line = format!("CONFIG_{name}=y");
        self.host.config.contains(&line)
    }
}

/// Returns the warning about this process's limit on CPU time, which affects all measurements and
/// loads; `None` without a limit.
pub fn quota(rights: &Rights) -> Option<Caveat> {
    rights::quota_caveat(rights)
}

/// Check of one setting.
type Check = fn(&Setup<'_>) -> Option<Caveat>;

/// Returns the settings of this host that harm the measurement of `services` on `cpus`, the worst
/// first.
///
/// A setting that is not readable does not cause a warning, because laggard does not guess.
pub fn caveats(host: &Host, rights: &Rights, cpus: &CpuList, services: &[Service]) -> Vec<Caveat> {
    let setup = Setup {
        host,
        rights,
        cpus,
        services,
    };
    let groups: [&[Check]; 5] = [
        &rights::CHECKS,
        &cpus::CHECKS,
        &kernel::CHECKS,
        &power::CHECKS,
        &work::CHECKS,
    ];
    let mut caveats: Vec<Caveat> = groups
        .into_iter()
        .flatten()
        .filter_map(|check| check(&setup))
        .collect();
    caveats.sort_by_key(|caveat| caveat.kind.severity());
    caveats
}
