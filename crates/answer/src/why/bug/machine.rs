//! Properties of the machine that an author of kernel code needs.

use laggard_model::{Caveat, Manifest, Severity};
use schemars::JsonSchema;
use serde::Serialize;

/// Options of the kernel command line that affect latency. Others can contain names of
/// disks, users and secrets, and are left out.
const OPTIONS: &str = "amd_pstate clocksource cpufreq.default_governor cpuidle.governor cpuidle.off hpet \
    hugepages idle intel_idle.max_cstate intel_pstate irqaffinity isolcpus kthread_cpus managed_irq maxcpus \
    mitigations nmi_watchdog nohalt nohlt nohz nohz_full nosmt nosoftlockup nosync nowatchdog nr_cpus \
    numa_balancing pcie_aspm preempt processor.ignore_ppc processor.max_cstate psi pti rcu_nocb_poll \
    rcu_nocbs rcupdate.rcu_expedited rcupdate.rcu_normal rcutree.kthread_prio \
    rcutree.rcu_normal_after_boot skew_tick threadirqs transparent_hugepage tsc watchdog \
    workqueue.cpu_intensive_thresh_us workqueue.power_efficient";

/// Machine of the recording, without its name.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Machine {
    /// Kernel release. Empty: not known.
    pub kernel: String,
    pub build: String,
    pub distribution: Option<String>,
    pub architecture: String,
    /// Preemption model in force.
    pub preemption: Option<String>,
    /// Timer ticks per second.
    pub hz: Option<u32>,
    pub processor: String,
    /// Number of logical CPUs online.
    pub cpus: u32,
    /// The hypervisor of a virtual machine.
    pub hypervisor: Option<String>,
    /// Options of the kernel command line that affect latency.
    pub options: Vec<String>,
    /// Number of its other words.
    pub other_options: usize,
    /// Warnings that affect latency or the figures.
    pub caveats: Vec<Caveat>,
}

impl Machine {
    pub(super) fn new(manifest: &Manifest) -> Self {
        let host = &manifest.host;
        let words = host.command_line.split_whitespace();
        let (options, others): (Vec<&str>, Vec<&str>) = match host.command_line.split_once(" -- ") {
            // The rest is for the first program.
            Some((own, rest)) => {
                let (own, mut others): (Vec<&str>, Vec<&str>) =
                    own.split_whitespace().partition(|word| is_shown(word));
                others.extend(rest.split_whitespace());
                (own, others)
            }
            None => words.partition(|word| is_shown(word)),
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
                .filter(|caveat| caveat.kind.severity() != Severity::Note)
                .cloned()
                .collect(),
        }
    }
}

/// Returns whether this word of the command line affects latency.
fn is_shown(word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    OPTIONS.split_whitespace().any(|option| option == name)
}

#[cfg(test)]
mod tests {
    use laggard_model::Host;

    use super::*;

    #[test]
    fn other_words_of_the_command_line_are_left_out() {
        let mut manifest = laggard_made::late::manifest();
        manifest.host = Host {
            command_line: "root=/dev/alice isolcpus=1 preempt=full secret -- idle=poll token=x"
                .into(),
            ..Host::default()
        };

        let machine = Machine::new(&manifest);

        assert_eq!(machine.options, ["isolcpus=1", "preempt=full"]);
        assert_eq!(machine.other_options, 4);
    }
}
