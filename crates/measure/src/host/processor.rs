//! The processor: its name, its layout and its vulnerabilities.

use std::collections::BTreeSet;

use laggard_model::{Cpu, CpuList, Processor};

use super::Files;

pub(super) fn identify(files: &Files) -> Processor {
    let online = online(files);
    let mut sockets = BTreeSet::new();
    let mut cores: Vec<CpuList> = Vec::new();
    for &cpu in online.as_slice() {
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        sockets.extend(files.text(&format!("{topology}/physical_package_id")));
        let core = [
            files.cpus(&format!("{topology}/core_cpus_list")),
            files.cpus(&format!("{topology}/thread_siblings_list")),
        ]
        .into_iter()
        .find(|core| !core.is_empty())
        .unwrap_or_else(|| CpuList::from_iter([cpu]));
        if !cores.contains(&core) {
            cores.push(core);
        }
    }
    Processor {
        model: model(files),
        microcode: files
            .field("proc/cpuinfo", "microcode")
            .or_else(|| files.text("sys/devices/system/cpu/cpu0/microcode/version")),
        sockets: count(sockets.len()),
        cores: count(cores.len()),
        threads: count(online.len()),
        siblings: cores.into_iter().filter(|core| core.len() > 1).collect(),
    }
}

fn online(files: &Files) -> CpuList {
    let online = files.cpus("sys/devices/system/cpu/online");
    if !online.is_empty() {
        return online;
    }
    let folder = "sys/devices/system/cpu";
    files
        .names(folder)
        .iter()
        .filter_map(|name| name.strip_prefix("cpu")?.parse().ok().map(Cpu))
        .collect()
}

/// Returns the processor's name; for boards, the board's name with the numbers of the core's
/// designer and part.
fn model(files: &Files) -> String {
    let field = |key| files.field("proc/cpuinfo", key);
    if let Some(name) = field("model name").filter(|name| !name.is_empty()) {
        return name;
    }
    let board = files.text("proc/device-tree/model");
    let core = field("CPU part").map(|part| {
        let designer = field("CPU implementer").unwrap_or_else(|| "?".into());
        format!("core {designer}:{part}")
    });
    match (board, core) {
        (Some(board), Some(core)) => format!("{board} ({core})"),
        (Some(name), None) | (None, Some(name)) => name,
        (None, None) => field("uarch").unwrap_or_default(),
    }
}

/// Returns one line for each vulnerability of the processor: `name: mitigation`.
pub(super) fn mitigations(files: &Files) -> Vec<String> {
    let folder = "sys/devices/system/cpu/vulnerabilities";
    files
        .names(folder)
        .iter()
        .filter_map(|name| {
            let state = files.text(&format!("{folder}/{name}"))?;
            (state != "Not affected").then(|| format!("{name}: {state}"))
        })
        .collect()
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a machine has fewer CPUs than a u32 counts")
}
