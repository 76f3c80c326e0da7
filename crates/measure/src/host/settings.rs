//! Kernel settings and background work.

use laggard_model::{Clocksource, FairServer, Nanos, Settings, Throttling};
use nix::unistd::{SysconfVar, sysconf};

use super::Files;

pub(super) fn identify(files: &Files) -> Settings {
    Settings {
        btf: files.exists("sys/kernel/btf/vmlinux"),
        pmu: has_pmu(files),
        stolen_ns: stolen(files),
        swap_bytes: memory_bytes(files, "SwapTotal"),
        numa_balancing: files.switch("proc/sys/kernel/numa_balancing"),
        watchdog: files.switch("proc/sys/kernel/watchdog"),
        nmi_watchdog: files.switch("proc/sys/kernel/nmi_watchdog"),
        timer_migration: files.switch("proc/sys/kernel/timer_migration"),
        autogroup: files.switch("proc/sys/kernel/sched_autogroup_enabled"),
        irqbalance: runs(files, "irqbalance"),
    }
}

pub(super) fn throttling(files: &Files) -> Option<Throttling> {
    let us = |name| files.value::<i64>(&format!("proc/sys/kernel/{name}"));
    Some(Throttling {
        period_ns: Nanos::from_us(us("sched_rt_period_us")?.try_into().ok()?),
        // -1 means no limit.
        runtime_ns: us("sched_rt_runtime_us")?
            .try_into()
            .ok()
            .map(Nanos::from_us),
        fair_server: fair_server(files),
    })
}

/// Returns the fair server of the first CPU. Only root can read it, if debugfs is mounted.
fn fair_server(files: &Files) -> Option<FairServer> {
    let ns = |name| {
        let path = format!("sys/kernel/debug/sched/fair_server/cpu0/{name}");
        files.value(&path).map(Nanos::from_ns)
    };
    Some(FairServer {
        period_ns: ns("period")?,
        runtime_ns: ns("runtime")?,
    })
}

pub(super) fn clocksource(files: &Files) -> Clocksource {
    let text = |name| {
        files
            .text(&format!(
                "sys/devices/system/clocksource/clocksource0/{name}"
            ))
            .unwrap_or_default()
    };
    Clocksource {
        current: text("current_clocksource"),
        available: text("available_clocksource")
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
    }
}

/// Returns a value of `/proc/meminfo`, whose unit is KiB.
pub(super) fn memory_bytes(files: &Files, key: &str) -> Option<u64> {
    let text = files.field("proc/meminfo", key)?;
    let kib: u64 = text.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn has_pmu(files: &Files) -> bool {
    files
        .names("sys/bus/event_source/devices")
        .iter()
        .any(|name| {
            // `cpu_core` and `cpu_atom` on hybrid processors; on Arm the name contains the core's
            // name.
            name == "cpu"
                || name.starts_with("cpu_")
                || name.starts_with("armv")
                || name.starts_with("apple_")
        })
}

fn stolen(files: &Files) -> Option<Nanos> {
    /// Index of steal time in `/proc/stat` (proc(5)), in clock ticks.
    const STEAL: usize = 7;
    let times = files.field("proc/stat", "cpu")?;
    let ticks: u64 = times.split_whitespace().nth(STEAL)?.parse().ok()?;
    let per_second = sysconf(SysconfVar::CLK_TCK).ok()??.try_into().ok()?;
    let ns_per_tick = 1_000_000_000_u64.checked_div(per_second)?;
    Some(Nanos::from_ns(ticks.saturating_mul(ns_per_tick)))
}

/// Returns whether a process with this name runs.
fn runs(files: &Files, name: &str) -> bool {
    files
        .names("proc")
        .iter()
        .filter(|pid| pid.starts_with(|first: char| first.is_ascii_digit()))
        .any(|pid| files.text(&format!("proc/{pid}/comm")).as_deref() == Some(name))
}
