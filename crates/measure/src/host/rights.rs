//! What this process may do: the part that belongs to no machine.

use laggard_model::Nanos;

use super::Files;

/// Bits of `CapEff` (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_NICE: u32 = 23;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// What this process may do. What cannot be read counts as not allowed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rights {
    /// Whether it may load BPF programs that trace the kernel.
    pub bpf: bool,
    /// The highest real-time priority that it may use; 0: none.
    pub priority: u8,
    /// How much memory it may lock, in bytes; `None`: all.
    pub lock_bytes: Option<u64>,
    /// Time that its control group gives real-time threads in each period;
    /// `None` where groups have no such limit.
    pub rt_group: Option<Nanos>,
}

impl Rights {
    /// This process's.
    pub fn read(files: &Files) -> Self {
        let capabilities = files
            .field("proc/self/status", "CapEff")
            .and_then(|hex| u64::from_str_radix(&hex, 16).ok())
            .unwrap_or_default();
        let may = |bit: u32| capabilities >> bit & 1 == 1;
        Self {
            bpf: may(CAP_SYS_ADMIN) || may(CAP_BPF) && may(CAP_PERFMON),
            priority: match may(CAP_SYS_NICE) {
                true => 99,
                false => limit(files, "Max realtime priority")
                    .flatten()
                    .and_then(|priority| priority.try_into().ok())
                    .unwrap_or_default(),
            },
            lock_bytes: match may(CAP_IPC_LOCK) {
                true => None,
                false => limit(files, "Max locked memory").unwrap_or(Some(0)),
            },
            rt_group: rt_group(files),
        }
    }
}

/// A soft limit of this process; the inner `None`: unlimited.
fn limit(files: &Files, name: &str) -> Option<Option<u64>> {
    let row = files.field("proc/self/limits", name)?;
    match row.split_whitespace().next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// `cpu.rt_runtime_us` of this process's group. Only the first version of
/// control groups has it; -1 is no limit.
fn rt_group(files: &Files) -> Option<Nanos> {
    let groups = files.text("proc/self/cgroup")?;
    let us: i64 = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        controllers.split(',').find(|&name| name == "cpu")?;
        ["cpu", controllers].into_iter().find_map(|mount| {
            let folder = format!("sys/fs/cgroup/{mount}{}", group.trim_end_matches('/'));
            files.value(&format!("{folder}/cpu.rt_runtime_us"))
        })
    })?;
    us.try_into().ok().map(Nanos::from_us)
}
