//! The machine, as far as an author of kernel code needs to know it.

use laggard_model::{Caveat, Manifest, Severity};
use schemars::JsonSchema;
use serde::Serialize;

/// Options of the kernel's command line that bear on latency, and so are told.
/// Others can name disks, users and secrets.
const OPTIONS: &str = "amd_pstate clocksource cpufreq.default_governor cpuidle.governor cpuidle.off hpet \
    hugepages idle intel_idle.max_cstate intel_pstate irqaffinity isolcpus kthread_cpus managed_irq maxcpus \
    mitigations nmi_watchdog nohalt nohlt nohz nohz_full nosmt nosoftlockup nosync nowatchdog nr_cpus \
    numa_balancing pcie_aspm preempt processor.ignore_ppc processor.max_cstate psi pti rcu_nocb_poll \
    rcu_nocbs rcupdate.rcu_expedited rcupdate.rcu_normal rcutree.kthread_prio \
    rcutree.rcu_normal_after_boot skew_tick threadirqs transparent_hugepage tsc watchdog \
    workqueue.cpu_intensive_thresh_us workqueue.power_efficient";

/// The machine on which it happened. It has no name here.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Machine {
    /// Kernel release; empty: not known.
    pub kernel: String,
    /// Kernel build.
    pub build: String,
    /// The distribution.
    pub distribution: Option<String>,
    /// Machine architecture.
    pub architecture: String,
    /// The preemption model in force.
    pub preemption: Option<String>,
    /// Timer ticks a second.
    pub hz: Option<u32>,
    /// The processor's name for itself.
    pub processor: String,
    /// Logical CPUs online.
    pub cpus: u32,
    /// The hypervisor, where the machine is virtual.
    pub hypervisor: Option<String>,
    /// What of the kernel's command line bears on latency.
    pub options: Vec<String>,
    /// How many other words it has.
    pub other_options: usize,
    /// What about it casts doubt on the figures, or adds latency.
    pub caveats: Vec<Caveat>,
}

impl Machine {
    pub(super) fn of(manifest: &Manifest) -> Self {
        let host = &manifest.host;
        let words = host.command_line.split_whitespace();
        let (options, others): (Vec<&str>, Vec<&str>) = match host.command_line.split_once(" -- ") {
            // What follows is for the first program.
            Some((own, rest)) => {
                let (own, mut others): (Vec<&str>, Vec<&str>) =
                    own.split_whitespace().partition(|word| is_told(word));
                others.extend(rest.split_whitespace());
                (own, others)
            }
            None => words.partition(|word| is_told(word)),
        };
        let caveats = manifest.caveats.iter();
        Self {
            kernel: host.kernel.clone(),
            build: host.build.clone(),
            distribution: host.distribution.clone(),
            architecture: host.architecture.clone(),
            preemption: host.preemption.clone(),
            hz: host.hz,
            processor: host.processor.model.clone(),
            cpus: host.processor.threads,
            hypervisor: host.hypervisor.clone(),
            options: options.into_iter().map(str::to_owned).collect(),
            other_options: others.len(),
            caveats: caveats
                .filter(|one| one.kind.severity() != Severity::Note)
                .cloned()
                .collect(),
        }
    }
}

/// Whether this word of the command line bears on latency.
fn is_told(word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    OPTIONS.split_whitespace().any(|one| one == name)
}

#[cfg(test)]
mod tests {
    use laggard_model::Host;

    use super::*;

    #[test]
    fn of_the_command_line_only_what_bears_on_latency_is_told() {
        let mut manifest = laggard_made::late::manifest();
        manifest.host = Host {
            command_line: "root=/dev/alice isolcpus=1 preempt=full secret -- idle=poll token=x"
                .into(),
            ..Host::default()
        };

        let machine = Machine::of(&manifest);

        assert_eq!(machine.options, ["isolcpus=1", "preempt=full"]);
        assert_eq!(machine.other_options, 4);
    }
}
