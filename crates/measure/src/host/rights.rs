//! Rights of this process, which are independent of the machine.

use std::path::Path;

use laggard_model::{CpuList, Nanos};

use super::Files;
use super::settings::memory_bytes;

/// Bits of `CapEff` (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_NICE: u32 = 23;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Rights of this process. A right that is not readable counts as absent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rights {
    /// Whether it may load BPF programs that trace the kernel.
    pub bpf: bool,
    /// Highest real-time priority that it may use; 0 if none.
    pub priority: u8,
    /// Limit on locked memory in bytes; `None` if unlimited.
    pub lock_bytes: Option<u64>,
    /// Time that its control group gives real-time threads per period; `None` if groups do not have
    /// such a limit.
    pub rt_group: Option<Nanos>,
    /// Online CPUs that it may not use.
    pub forbidden: CpuList,
    /// CPU time that its control groups give it per period, and the period; `None` if unlimited.
    pub quota: Option<(Nanos, Nanos)>,
}

impl Rights {
    /// Reads the rights of this process from these files. They do not include the usable CPUs.
    pub fn read(files: &Files) -> Self {
        let capabilities = files
            .field("proc/self/status", "CapEff")
            .and_then(|hex| u64::from_str_radix(&hex, 16).ok())
            .unwrap_or_default();
        let may = |bit: u32| capabilities >> bit & 1 == 1;
        Self {
            bpf: may(CAP_SYS_ADMIN) || may(CAP_BPF) && may(CAP_PERFMON),
            priority: if may(CAP_SYS_NICE) {
                99
            } else {
                limit(files, "Max realtime priority")
                    .flatten()
                    .and_then(|priority| priority.try_into().ok())
                    .unwrap_or_default()
            },
            lock_bytes: if may(CAP_IPC_LOCK) {
                None
            } else {
                limit(files, "Max locked memory").unwrap_or(Some(0))
            },
            rt_group: rt_group(files),
            forbidden: CpuList::default(),
            quota: quota(files),
        }
    }
}

/// Returns a soft limit of this process; the inner `None` means unlimited.
pub(super) fn limit(files: &Files, name: &str) -> Option<Option<u64>> {
    let row = files.field("proc/self/limits", name)?;
    match row.split_whitespace().next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// Returns `cpu.rt_runtime_us` of this process's group. Only version 1 of control groups has it;
/// -1 means no limit. In a container that does not see the path of its group, the nearest visible
/// directory is the group of the container.
fn rt_group(files: &Files) -> Option<Nanos> {
    let mut groups = groups(files, "cpu").into_iter();
    let us: i64 = groups.find_map(|folder| files.value(&format!("{folder}/cpu.rt_runtime_us")))?;
    us.try_into().ok().map(Nanos::from_us)
}

/// Returns the tightest limit on CPU time of this process's control groups and their ancestors,
/// of either version.
fn quota(files: &Files) -> Option<(Nanos, Nanos)> {
    let groups = groups(files, "cpu").into_iter();
    let limits = groups.filter_map(|folder| limit_of_group(files, &folder));
    let share = |(quota, period): &(Nanos, Nanos)| quota.as_secs_f64() / period.as_secs_f64();
    limits.min_by(|a, b| share(a).total_cmp(&share(b)))
}

/// Returns the directories of this process's control groups and their ancestors that may contain
/// a controller, of either version.
fn groups(files: &Files, controller: &str) -> Vec<String> {
    let groups = files.text("proc/self/cgroup").unwrap_or_default();
    let mut folders = Vec::new();
    for line in groups.lines() {
        let (_, rest) = line.split_once(':').unwrap_or_default();
        let (controllers, group) = rest.split_once(':').unwrap_or_default();
        let mounts: [String; 2] = match controllers {
            "" => ["sys/fs/cgroup".into(), "sys/fs/cgroup/unified".into()],
            some if some.split(',').any(|name| name == controller) => {
                [controller, some].map(|name| format!("sys/fs/cgroup/{name}"))
            }
            _ => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        for mount in &mounts {
            let above = group.ancestors().map(|group| Path::new(mount).join(group));
            folders.extend(above.map(|directory| directory.display().to_string()));
        }
    }
    for folder in &mut folders {
        folder.truncate(folder.trim_end_matches('/').len());
    }
    folders
}

/// Returns the memory in bytes that this process can still allocate: the memory that the machine
/// has available without swapping, or less if a control group has a limit. `None` if unknown.
pub fn free_memory(files: &Files) -> Option<u64> {
    let groups = groups(files, "memory").into_iter();
    let left = groups.filter_map(|folder| left_in_group(files, &folder));
    memory_bytes(files, "MemAvailable")
        .into_iter()
        .chain(left)
        .min()
}

/// Returns the memory that a group has left: its limit minus memory that is not reclaimable file
/// cache.
fn left_in_group(files: &Files, folder: &str) -> Option<u64> {
    let stat = format!("{folder}/memory.stat");
    // `max` is not a number and means no limit.
    let (most, used): (u64, _) = match files.text(&format!("{folder}/memory.max")) {
        Some(most) => (most.parse().ok()?, files.field(&stat, "anon")),
        None => (
            files.value(&format!("{folder}/memory.limit_in_bytes"))?,
            files.field(&stat, "total_rss"),
        ),
    };
    Some(most.saturating_sub(used?.parse().ok()?))
}

/// Returns the limit of one group: `cpu.max`, or the two files of version 1.
fn limit_of_group(files: &Files, folder: &str) -> Option<(Nanos, Nanos)> {
    let pair = match files.text(&format!("{folder}/cpu.max")) {
        Some(both) => {
            let (quota, period) = both.split_once(' ')?;
            // `max` is not a number and means no limit.
            (quota.parse().ok()?, period.parse().ok()?)
        }
        // -1 means no limit.
        None => (
            files.value(&format!("{folder}/cpu.cfs_quota_us"))?,
            files.value(&format!("{folder}/cpu.cfs_period_us"))?,
        ),
    };
    let (quota_us, period_us): (i64, i64) = pair;
    let quota = Nanos::from_us(quota_us.try_into().ok()?);
    let period = Nanos::from_us(period_us.try_into().ok()?);
    (period > Nanos::ZERO).then_some((quota, period))
}
