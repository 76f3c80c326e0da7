//! Warnings about the measured CPUs.

use laggard_model::{Caveat, CaveatKind, CpuList};

use super::{Check, Setup};

pub(super) const CHECKS: [Check; 4] = [offline, isolated, tickless, siblings];

fn offline(setup: &Setup<'_>) -> Option<Caveat> {
    let cpus = setup.measured(&setup.host.isolation.offline);
    let first = cpus.as_slice().first()?;
    Some(Caveat::new(
        CaveatKind::CpuOffline,
        format!("{} offline and cannot be measured", named(&cpus)),
        format!("`echo 1 > /sys/devices/system/cpu/cpu{first}/online`"),
    ))
}

fn isolated(setup: &Setup<'_>) -> Option<Caveat> {
    let cpus = setup.measured(&setup.host.isolation.isolated);
    (!cpus.is_empty()).then(|| {
        Caveat::new(
            CaveatKind::CpuIsolated,
            format!(
                "{} isolated: a load does not run there by default",
                named(&cpus)
            ),
            format!("to run a load there, use `-- taskset -c {cpus} COMMAND`"),
        )
    })
}

fn tickless(setup: &Setup<'_>) -> Option<Caveat> {
    let cpus = setup.measured(&setup.host.isolation.nohz_full);
    (!cpus.is_empty()).then(|| {
        Caveat::new(
            CaveatKind::Tickless,
            format!(
                "{} tickless (nohz_full=): a single thread runs without tick, but every kernel entry is slower",
                named(&cpus)
            ),
            "suitable for threads that never sleep; for threads that wait for timers, boot without nohz_full= and compare",
        )
    })
}

fn siblings(setup: &Setup<'_>) -> Option<Caveat> {
    let cores = &setup.host.processor.siblings;
    let shared: CpuList = cores
        .iter()
        .flat_map(|core| setup.measured(core).as_slice().to_vec())
        .collect();
    (!shared.is_empty()).then(|| {
        Caveat::new(
            CaveatKind::Siblings,
            format!(
                "{} sharing a core with a sibling CPU, whose load slows them",
                named(&shared)
            ),
            "`echo off > /sys/devices/system/cpu/smt/control`",
        )
    })
}

/// Returns text such as `CPU 2 is` or `CPUs 2-3 are`.
pub(super) fn named(cpus: &CpuList) -> String {
    match cpus.len() {
        1 => format!("CPU {cpus} is"),
        _ => format!("CPUs {cpus} are"),
    }
}
