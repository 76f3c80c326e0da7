//! The machine: its identity, and its settings that harm latency.
//!
//! Everything is read from files of the kernel, and nothing is changed.

mod audio;
mod caveats;
mod files;
mod hardware;
mod hypervisor;
mod kernel;
mod power;
mod processor;
mod rights;
mod settings;
#[cfg(test)]
mod tests;

use laggard_model::{Host, Isolation};

pub use audio::audio;
pub use caveats::{caveats, quota};
pub use files::Files;
pub(crate) use kernel::{NMI_REMEDY, counters_are_nmi, options};
pub use rights::{Rights, free_memory};

/// Identifies the machine with these files; `Files::default()` is this machine. Values that are
/// not readable are `None` or empty.
pub fn identify(files: &Files) -> Host {
    let command_line = files.text("proc/cmdline").unwrap_or_default();
    let config = kernel::Config::read(files);
    Host {
        node: files.text("proc/sys/kernel/hostname").unwrap_or_default(),
        distribution: kernel::distribution(files),
        kernel: files.text("proc/sys/kernel/osrelease").unwrap_or_default(),
        build: files.text("proc/sys/kernel/version").unwrap_or_default(),
        architecture: kernel::architecture(files),
        preemption: kernel::preemption(files, &command_line, &config),
        hz: config.value("HZ").and_then(|hz| hz.parse().ok()),
        config: config.bearing_on_latency(),
        processor: processor::identify(files),
        memory_bytes: settings::memory_bytes(files, "MemTotal").unwrap_or_default(),
        frequency: power::frequency(files),
        turbo: power::turbo(files),
        idle: power::idle(files),
        idle_driver: power::idle_driver(files),
        isolation: Isolation {
            isolated: files.cpus("sys/devices/system/cpu/isolated"),
            nohz_full: files.cpus("sys/devices/system/cpu/nohz_full"),
            offline: files.cpus("sys/devices/system/cpu/offline"),
        },
        throttling: settings::throttling(files),
        huge_pages: files.chosen("sys/kernel/mm/transparent_hugepage/enabled", '[', ']'),
        mitigations: processor::mitigations(files),
        clocksource: settings::clocksource(files),
        hypervisor: hypervisor::identify(files),
        lockdown: kernel::lockdown(files, &command_line, &config),
        settings: settings::identify(files),
        hardware: hardware::identify(files),
        command_line,
    }
}
