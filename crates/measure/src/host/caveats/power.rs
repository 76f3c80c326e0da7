//! Warnings about power saving and virtual machines.

use laggard_model::text::Unit;
use laggard_model::{Caveat, CaveatKind, Nanos};

use super::super::kernel::{NMI_REMEDY, counters_are_nmi};
use super::{Check, Setup};

pub(super) const CHECKS: [Check; 5] = [idle, governor, turbo, virtual_machine, pmu];

/// Maximum exit latency of an idle state without a warning.
const MAX_EXIT_LATENCY: Nanos = Nanos::from_us(10);

fn idle(setup: &Setup<'_>) -> Option<Caveat> {
    let deep = setup.host.idle.iter().filter(|state| !state.disabled);
    let deepest = deep
        .max_by_key(|state| state.exit_ns)
        .filter(|state| state.exit_ns > MAX_EXIT_LATENCY)?;
    Some(Caveat::new(
        CaveatKind::IdleStates,
        format!(
            "an idle CPU may enter {}, whose exit latency is {}",
            deepest.name, deepest.exit_ns
        ),
        "to disable such states until the next boot (uses more power), run `cpupower idle-set -D 10`",
    ))
}

fn governor(setup: &Setup<'_>) -> Option<Caveat> {
    let (cpus, governor) = setup.host.frequency.iter().find_map(|group| {
        let cpus = setup.measured(&group.cpus);
        (group.governor != "performance" && !cpus.is_empty()).then_some((cpus, &group.governor))
    })?;
    Some(Caveat::new(
        CaveatKind::Governor,
        format!("the frequency of CPU {cpus} follows the load (governor {governor})"),
        "`cpupower frequency-set -g performance`",
    ))
}

fn turbo(setup: &Setup<'_>) -> Option<Caveat> {
    (setup.host.turbo == Some(true)).then(|| {
        let is_intel = setup.host.frequency.iter().any(|group| {
            group
                .driver
                .as_deref()
                .is_some_and(|driver| driver.starts_with("intel_"))
        });
        Caveat::new(
            CaveatKind::Turbo,
            "turbo is on: frequencies depend on temperature and on the other cores",
            if is_intel {
                "`echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo` makes runs comparable"
            } else {
                "`echo 0 > /sys/devices/system/cpu/cpufreq/boost` makes runs comparable"
            },
        )
    })
}

fn virtual_machine(setup: &Setup<'_>) -> Option<Caveat> {
    let name = setup.host.hypervisor.as_deref()?;
    let stolen = setup.host.settings.stolen_ns.unwrap_or_default();
    let so_far = if stolen > Nanos::ZERO {
        format!(
            "; steal time since boot: {}",
            Unit::Auto.write_nanos(stolen)
        )
    } else {
        String::new()
    };
    Some(Caveat::new(
        CaveatKind::VirtualMachine,
        format!("this is a virtual machine ({name}), so its hypervisor can stop any CPU{so_far}"),
        "measure on the host, too, and give this machine dedicated CPUs (pinned vCPUs, no overcommit)",
    ))
}

fn pmu(setup: &Setup<'_>) -> Option<Caveat> {
    let host = setup.host;
    let options = || host.config.clone();
    if host.settings.pmu && !counters_are_nmi(&host.architecture, &host.command_line, options) {
        return Some(Caveat::new(
            CaveatKind::NoPmu,
            "performance counters interrupt only code that has interrupts enabled: code that runs with interrupts disabled cannot be sampled",
            NMI_REMEDY,
        ));
    }
    (!host.settings.pmu).then(|| {
        Caveat::new(
            CaveatKind::NoPmu,
            "no hardware performance counters: code that runs with interrupts disabled cannot be sampled",
            match host.hypervisor {
                Some(_) => "pass them through in the hypervisor (QEMU: `-cpu host,pmu=on`)",
                None => "check the firmware settings and `dmesg | grep -i pmu`",
            },
        )
    })
}
