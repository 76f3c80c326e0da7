//! What this process may do: the part that belongs to no machine.

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
    /// CPUs that are online and that it may not use.
    pub forbidden: CpuList,
    /// The CPU time that its control groups give it in each period, and that
    /// period; `None`: all.
    pub quota: Option<(Nanos, Nanos)>,
}

impl Rights {
    /// This process's, as far as these files tell: not which CPUs it may use.
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

/// A soft limit of this process; the inner `None`: unlimited.
pub(super) fn limit(files: &Files, name: &str) -> Option<Option<u64>> {
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

/// The tightest limit on CPU time of this process's control groups and of
/// those that hold them, of either version.
fn quota(files: &Files) -> Option<(Nanos, Nanos)> {
    let groups = groups(files, "cpu").into_iter();
    let limits = groups.filter_map(|folder| limit_of_group(files, &folder));
    let share = |(quota, period): &(Nanos, Nanos)| quota.as_secs_f64() / period.as_secs_f64();
    limits.min_by(|a, b| share(a).total_cmp(&share(b)))
}

/// The folders of this process's control groups, and of those that hold them, of
/// either version, in which a controller may be.
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
            folders.extend(above.map(|one| one.display().to_string()));
        }
    }
    for folder in &mut folders {
        folder.truncate(folder.trim_end_matches('/').len());
    }
    folders
}

/// The memory, bytes, that this process can still have: what the machine has without
/// writing any to its disk, or less where a control group has a limit. `None`: it is
/// not told.
pub fn free_memory(files: &Files) -> Option<u64> {
    let groups = groups(files, "memory").into_iter();
    let left = groups.filter_map(|folder| left_in_group(files, &folder));
    memory_bytes(files, "MemAvailable")
        .into_iter()
        .chain(left)
        .min()
}

/// What one group has left: its limit, less the memory of processes that no file
/// could replace.
fn left_in_group(files: &Files, folder: &str) -> Option<u64> {
    let stat = format!("{folder}/memory.stat");
    // `max` is no number, and no limit.
    let (most, used): (u64, _) = match files.text(&format!("{folder}/memory.max")) {
        Some(most) => (most.parse().ok()?, files.field(&stat, "anon")),
        None => (
            files.value(&format!("{folder}/memory.limit_in_bytes"))?,
            files.field(&stat, "total_rss"),
        ),
    };
    Some(most.saturating_sub(used?.parse().ok()?))
}

/// The limit of one group: `cpu.max`, or the two files of the first version.
fn limit_of_group(files: &Files, folder: &str) -> Option<(Nanos, Nanos)> {
    let pair = match files.text(&format!("{folder}/cpu.max")) {
        Some(both) => {
            let (quota, period) = both.split_once(' ')?;
            // `max` is no number, and no limit.
            (quota.parse().ok()?, period.parse().ok()?)
        }
        // -1 is no limit.
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
