//! Power saving: frequencies and idle states.

use laggard_model::{Cpu, CpuFreq, CpuList, Idle, Nanos};

use super::Files;

const CPUS: &str = "sys/devices/system/cpu";

/// Returns groups of CPUs with the same governor and driver.
pub(super) fn frequency(files: &Files) -> Vec<CpuFreq> {
    let mut groups: Vec<CpuFreq> = Vec::new();
    for name in files.names(&format!("{CPUS}/cpufreq")) {
        let policy = format!("{CPUS}/cpufreq/{name}");
        let Some(governor) = files.text(&format!("{policy}/scaling_governor")) else {
            continue;
        };
        let driver = files.text(&format!("{policy}/scaling_driver"));
        // The list excludes offline CPUs and is separated by spaces.
        let cpus: Vec<Cpu> = files
            .text(&format!("{policy}/affected_cpus"))
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|cpu| cpu.parse().ok().map(Cpu))
            .collect();
        let same = groups
            .iter_mut()
            .find(|group| group.governor == governor && group.driver == driver);
        match same {
            Some(group) => {
                let cpus = group.cpus.as_slice().iter().copied().chain(cpus);
                group.cpus = cpus.collect();
            }
            None => groups.push(CpuFreq {
                cpus: cpus.into_iter().collect(),
                governor,
                driver,
            }),
        }
    }
    groups
}

pub(super) fn turbo(files: &Files) -> Option<bool> {
    files
        .switch(&format!("{CPUS}/intel_pstate/no_turbo"))
        .map(|off| !off)
        .or_else(|| files.switch(&format!("{CPUS}/cpufreq/boost")))
}

/// Returns the idle states of the first CPU. A state counts as disabled if it is disabled on
/// every CPU that has it.
pub(super) fn idle(files: &Files) -> Vec<Idle> {
    let cpus: CpuList = files.cpus(&format!("{CPUS}/online"));
    let first = format!("{CPUS}/cpu0/cpuidle");
    files
        .names(&first)
        .into_iter()
        .filter_map(|state| {
            let name = files.text(&format!("{first}/{state}/name"))?;
            let exit_us = files.value(&format!("{first}/{state}/latency"))?;
            let mut switches = cpus.as_slice().iter().filter_map(|cpu| {
                files.switch(&format!("{CPUS}/cpu{cpu}/cpuidle/{state}/disable"))
            });
            let first = switches.next();
            Some(Idle {
                name,
                exit_ns: Nanos::from_us(exit_us),
                disabled: first == Some(true) && switches.all(|disabled| disabled),
            })
        })
        .collect()
}

/// Returns `driver/governor`, or only the driver.
pub(super) fn idle_driver(files: &Files) -> Option<String> {
    let folder = format!("{CPUS}/cpuidle");
    let driver = files.text(&format!("{folder}/current_driver"))?;
    let governor = files
        .text(&format!("{folder}/current_governor_ro"))
        .or_else(|| files.text(&format!("{folder}/current_governor")));
    Some(match governor {
        Some(governor) => format!("{driver}/{governor}"),
        None => driver,
    })
}
