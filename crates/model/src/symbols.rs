//! Names for addresses, and facts about a recording's episodes.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Address, HandlerCounts, Nanos, Tid};

/// Code at an address that was resolved after the run.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Symbol {
    /// Function; `None`: see `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Kernel module, program or library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Reason why the function is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

impl Symbol {
    /// Returns the symbol of a function without a module.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }
}

/// Names of all addresses in a recording's episodes.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Symbols {
    /// Kernel code.
    pub kernel: BTreeMap<Address, Symbol>,
    /// User code, by process.
    pub user: BTreeMap<u32, BTreeMap<Address, Symbol>>,
    /// Interrupts by number, with the names of their devices.
    pub interrupts: BTreeMap<u32, String>,
    /// Threads of the laggard that recorded: their time is not the machine's. Empty if
    /// unknown.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub own_threads: BTreeSet<Tid>,
    /// Control groups whose CPU quota was exhausted, by the kernel's number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quotas: BTreeMap<u64, GroupQuota>,
    /// Scheduling entities of threads that competed for a CPU, outermost first: the
    /// groups of the thread, then the thread.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub entities: BTreeMap<Tid, Vec<SchedEntity>>,
}

/// CPU quota of a control group.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct GroupQuota {
    /// Path of the group below the root of its hierarchy, such as `/user.slice`.
    pub group: String,
    /// File that sets the quota: `cpu.max` (version 2) or `cpu.cfs_quota_us` (version 1).
    pub file: String,
    /// CPU time that the group may use in each period; `None`: it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_ns: Option<Nanos>,
    /// Length of a period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<Nanos>,
}

/// One level of the scheduler's hierarchy. Entities of the same parent share its CPU time
/// by their weights.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct SchedEntity {
    /// Path of a control group, name of an autogroup (`/autogroup-25`), or empty: a thread.
    pub group: String,
    /// Setting of the weight, such as `cpu.weight 1`, `cpu.shares 10` or `nice -20`.
    pub setting: String,
    /// Weight, where nice 0 has 1024.
    pub weight: u64,
}

/// Functions where system calls start, by architecture; the name follows.
const CALL_PREFIXES: [&str; 6] = [
    "__x64_sys_",
    "__arm64_sys_",
    "__riscv_sys_",
    "__ia32_sys_",
    "__do_sys_",
    "__se_sys_",
];

/// Functions that only system calls use, with the name of the call. A compiler may leave out the
/// function where the call starts.
const CALL_FUNCTIONS: [(&str, &str); 16] = [
    ("__vm_munmap", "munmap"),
    ("do_fsync", "fsync"),
    ("do_futex", "futex"),
    ("do_madvise", "madvise"),
    ("do_mlock", "mlock"),
    ("do_mprotect_pkey", "mprotect"),
    ("do_readv", "readv"),
    ("do_sys_openat2", "openat"),
    ("do_sys_poll", "poll"),
    ("do_writev", "writev"),
    ("ksys_fadvise64_64", "fadvise64"),
    ("ksys_mmap_pgoff", "mmap"),
    ("ksys_pread64", "pread64"),
    ("ksys_read", "read"),
    ("ksys_write", "write"),
    ("vm_mmap_pgoff", "mmap"),
];

impl Symbols {
    /// Returns the name of the system call that starts at a kernel address, if one does.
    pub fn system_call(&self, address: Address) -> Option<&str> {
        let name = self.kernel.get(&address)?.name.as_deref()?;
        let name = name.split('+').next().unwrap_or(name);
        let name = name.split(".constprop").next().unwrap_or(name);
        let mut functions = CALL_FUNCTIONS.iter();
        let inner = functions.find_map(|(function, call)| (*function == name).then_some(*call));
        inner.or_else(|| {
            let mut prefixes = CALL_PREFIXES.iter();
            prefixes.find_map(|prefix| name.strip_prefix(prefix))
        })
    }

    /// Returns a kernel address in words: its function, or the bare address.
    pub fn kernel_name(&self, address: Address) -> String {
        name_of(self.kernel.get(&address), address)
    }

    /// Returns a user address in words.
    pub fn user_name(&self, process: u32, address: Address) -> String {
        let symbols = self.user.get(&process);
        name_of(symbols.and_then(|symbols| symbols.get(&address)), address)
    }
}

fn name_of(symbol: Option<&Symbol>, address: Address) -> String {
    match symbol {
        Some(Symbol {
            name: Some(name),
            module: Some(module),
            ..
        }) => format!("{name} [{module}]"),
        Some(Symbol {
            name: Some(name), ..
        }) => name.clone(),
        Some(Symbol {
            module: Some(module),
            ..
        }) => format!("{address} [{module}]"),
        _ => address.to_string(),
    }
}

/// Selection of the episodes of a recording, and missing data.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct EpisodeNotes {
    /// Latency threshold per line; `None` if not decided yet.
    pub thresholds_ns: Vec<Option<Nanos>>,
    /// Number of kept episodes.
    pub kept: u64,
    /// Number of late wakeups that were not kept: there were too many, or, for
    /// observed threads, the activity of their CPU does not show the cause.
    pub surplus: u64,
    /// Number of kept episodes whose trace data was overwritten, in part or completely.
    pub overwritten: u64,
    /// Minimum number of context switches that the flight recorder missed since its
    /// start. `None`: not counted, in recordings of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen_switches: Option<u64>,
    /// Per line: the observation, and activations that were not kept; empty in
    /// recordings of earlier versions.
    pub lines: Vec<LineWatch>,
    /// Counts of the kernel's activity in addition to threads; absent if it was not
    /// counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handlers: Option<HandlerCounts>,
    /// Names, looked up when the recording ended.
    pub symbols: Symbols,
}

/// Observation of a line for late wakeups.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct LineWatch {
    /// Time when the threshold came into effect: every latency above it counted as late,
    /// `CLOCK_MONOTONIC`; 0 for a given threshold. Before, only each new maximum did, and latencies
    /// above any possible threshold. `None`: not before the end.
    pub from_ns: Option<Nanos>,
    /// Number of kept episodes.
    pub kept: u64,
    /// Number of late wakeups that were not kept: there were too many, or, for
    /// observed threads, the activity of their CPU does not show the cause.
    pub surplus: u64,
    /// Number of activations before `from_ns` above the threshold that was decided then
    /// (or would have been at the end) that were not kept.
    pub early: u64,
    /// Largest latency of these early activations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_largest_ns: Option<Nanos>,
    /// Late wakeups without trace data. `None`: recorded by a version that did not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untraced: Option<Untraced>,
}

/// Late wakeups without trace data: their causes are unknown.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Untraced {
    /// Number of wakeups, including expiries that passed while the thread was still late.
    pub wakeups: u64,
    /// Sum of their latencies.
    pub total_ns: Nanos,
}

impl Untraced {
    /// Adds `wakeups` with this sum of latencies.
    pub fn add(&mut self, wakeups: u64, total: Nanos) {
        self.wakeups += wakeups;
        self.total_ns += total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_includes_its_module_and_an_unknown_one_is_its_address() {
        let mut symbols = Symbols::default();
        let symbol = Symbol {
            name: Some("e1000_clean".into()),
            module: Some("e1000".into()),
            unknown: None,
        };
        symbols.kernel.insert(Address(16), symbol);

        assert_eq!(symbols.kernel_name(Address(16)), "e1000_clean [e1000]");
        assert_eq!(symbols.kernel_name(Address(17)), "0x11");
        assert_eq!(symbols.user_name(1, Address(17)), "0x11");
    }

    #[test]
    fn system_call_has_the_name_that_programs_use() {
        let call_of = |function: &str| {
            let mut symbols = Symbols::default();
            let symbol = Symbol::named(function);
            symbols.kernel.insert(Address(16), symbol);
            symbols.system_call(Address(16)).map(str::to_owned)
        };

        assert_eq!(call_of("__x64_sys_write+0x1b").as_deref(), Some("write"));
        assert_eq!(call_of("ksys_write+0x6d").as_deref(), Some("write"));
        assert_eq!(call_of("vm_mmap_pgoff").as_deref(), Some("mmap"));
        assert_eq!(
            call_of("do_madvise.constprop.0").as_deref(),
            Some("madvise")
        );
        assert_eq!(call_of("vfs_write"), None);
    }
}
