//! Control groups of the CPU controller and autogroups, which explain the choice between
//! `SCHED_OTHER` threads.
//!
//! Threads are known by the kernel's TIDs, so nothing is looked up in a separate PID namespace.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use laggard_model::{Evidence, GroupQuota, Happening, Nanos, SchedEntity, Tid, is_normal_priority};

use crate::own::is_first_namespace;

/// Weight of nice 0.
const NICE_0: u64 = 1024;
/// `cpu.weight` of nice 0.
const WEIGHT_0: u64 = 100;
/// Weight of `SCHED_IDLE` threads and groups: `WEIGHT_IDLEPRIO` of the kernel.
const IDLE: u64 = 3;
/// `SCHED_IDLE` in `/proc/PID/stat`.
const POLICY_IDLE: &str = "5";
/// Weights of nice -20 to 19: `sched_prio_to_weight` of the kernel's
/// `kernel/sched/core.c`.
const NICE_WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];
/// Maximum number of threads that are looked up.
const MAX_THREADS: usize = 4_096;
/// Maximum depth of groups that are searched.
const MAX_DEPTH: usize = 32;

/// Hierarchy of the CPU controller.
#[derive(Clone, Debug)]
struct Hierarchy {
    root: PathBuf,
    is_version_2: bool,
}

/// Quotas and scheduling entities, each looked up once.
#[derive(Debug)]
pub(crate) struct SchedGroups {
    hierarchy: Option<Hierarchy>,
    sees_threads: bool,
    /// Mount point of `/proc`; another directory in tests.
    proc: PathBuf,
    quotas: BTreeMap<u64, Option<GroupQuota>>,
    entities: BTreeMap<Tid, Vec<SchedEntity>>,
}

impl Default for SchedGroups {
    fn default() -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        Self {
            hierarchy: hierarchy(&mounts),
            sees_threads: is_first_namespace(),
            proc: "/proc".into(),
            quotas: BTreeMap::new(),
            entities: BTreeMap::new(),
        }
    }
}

impl SchedGroups {
    /// Looks up the quota of the group with this number. Call it while the group exists.
    pub(crate) fn note_quota(&mut self, number: u64) {
        if !self.quotas.contains_key(&number) {
            let entry = self
                .hierarchy
                .as_ref()
                .and_then(|hierarchy| hierarchy.quota(number));
            self.quotas.insert(number, entry);
        }
    }

    /// Looks up the entities of a thread. Call it while the thread lives.
    pub(crate) fn note_thread(&mut self, tid: Tid) {
        let is_new = tid.0 != 0 && !self.entities.contains_key(&tid);
        if self.sees_threads && is_new && self.entities.len() < MAX_THREADS {
            let entry = self.read_entities(tid).unwrap_or_default();
            self.entities.insert(tid, entry);
        }
    }

    /// Looks up the entities of a thread and of the `SCHED_OTHER` threads that ran while it waited.
    /// Does nothing for a real-time thread, which does not compete with them.
    pub(crate) fn note_competitors(&mut self, waiter: Tid, evidence: &Evidence) {
        let switches = || {
            evidence.events.iter().filter_map(|event| match event.what {
                Happening::Switch { tid, priority, .. } => {
                    Some((tid, is_normal_priority(priority)))
                }
                Happening::Begin(_) | Happening::End(_) => None,
            })
        };
        if switches().any(|(tid, is_normal)| tid == waiter && !is_normal) {
            return;
        }
        self.note_thread(waiter);
        for (tid, _) in switches().filter(|(_, is_normal)| *is_normal) {
            self.note_thread(tid);
        }
    }

    /// Returns the known quotas.
    pub(crate) fn quotas(&self) -> BTreeMap<u64, GroupQuota> {
        let entry = self.quotas.iter();
        entry
            .filter_map(|(&number, quota)| Some((number, quota.clone()?)))
            .collect()
    }

    /// Returns the entities of the known threads.
    pub(crate) fn entities(&self) -> BTreeMap<Tid, Vec<SchedEntity>> {
        let entry = self.entities.iter();
        entry
            .filter(|(_, levels)| !levels.is_empty())
            .map(|(&tid, levels)| (tid, levels.clone()))
            .collect()
    }

    fn read_entities(&self, tid: Tid) -> Option<Vec<SchedEntity>> {
        let file = |name: &str| fs::read_to_string(self.proc.join(tid.0.to_string()).join(name));
        let hierarchy = self.hierarchy.as_ref();
        let groups = file("cgroup").ok()?;
        let path = hierarchy.and_then(|hierarchy| hierarchy.path_of(&groups));
        let mut levels = match (hierarchy, &path) {
            (Some(hierarchy), Some(path)) => hierarchy.levels(path),
            _ => Vec::new(),
        };
        if levels.is_empty() && self.has_autogroups() {
            let autogroup = file("autogroup").unwrap_or_default();
            levels.extend(autogroup_level(&autogroup));
        }
        levels.push(thread_level(&file("stat").ok()?)?);
        Some(levels)
    }

    fn has_autogroups(&self) -> bool {
        let file = self.proc.join("sys/kernel/sched_autogroup_enabled");
        fs::read_to_string(file).is_ok_and(|text| text.trim() == "1")
    }
}

/// Returns the hierarchy of the CPU controller from `/proc/self/mounts`.
fn hierarchy(mounts: &str) -> Option<Hierarchy> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    let mut version_2 = None;
    for (place, kind, options) in mounts {
        if kind == "cgroup" && options.split(',').any(|option| option == "cpu") {
            return Some(Hierarchy {
                root: place.into(),
                is_version_2: false,
            });
        }
        if kind == "cgroup2" {
            version_2.get_or_insert(Hierarchy {
                root: place.into(),
                is_version_2: true,
            });
        }
    }
    version_2
}

impl Hierarchy {
    /// Returns the path of a thread's group from its `/proc/TID/cgroup`.
    fn path_of(&self, groups: &str) -> Option<String> {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers) = (fields.next()?, fields.next()?);
            let is_it = if self.is_version_2 {
                number == "0" && controllers.is_empty()
            } else {
                controllers.split(',').any(|controller| controller == "cpu")
            };
            fields.next().filter(|_| is_it).map(Into::into)
        })
    }

    /// Returns the groups on the path to `path`, each with its weight. A version 2 group without
    /// the CPU controller is not a scheduling group.
    fn levels(&self, path: &str) -> Vec<SchedEntity> {
        let mut folder = self.root.clone();
        let mut group = String::new();
        let mut levels = Vec::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            folder.push(name);
            group = format!("{group}/{name}");
            let number = |file: &str| read_number(&folder.join(file));
            let (setting, weight) = if number("cpu.idle") == Some(1) {
                ("cpu.idle 1".to_owned(), IDLE)
            } else if self.is_version_2 {
                let Some(weight) = number("cpu.weight") else {
                    break;
                };
                (format!("cpu.weight {weight}"), weight * NICE_0 / WEIGHT_0)
            } else {
                let Some(shares) = number("cpu.shares") else {
                    break;
                };
                (format!("cpu.shares {shares}"), shares)
            };
            levels.push(SchedEntity {
                group: group.clone(),
                setting,
                weight,
            });
        }
        levels
    }

    /// Returns the quota of the group with this number.
    fn quota(&self, number: u64) -> Option<GroupQuota> {
        let folder = find(&self.root, number, 0)?;
        let below = folder.strip_prefix(&self.root).ok()?;
        let us = |value: Option<u64>| value.map(Nanos::from_us);
        let (file, quota, period) = if self.is_version_2 {
            let text = fs::read_to_string(folder.join("cpu.max")).unwrap_or_default();
            let mut fields = text.split_whitespace().map(|field| field.parse().ok());
            let (quota, period) = (fields.next().flatten(), fields.next().flatten());
            ("cpu.max", quota, period)
        } else {
            let quota = read_number(&folder.join("cpu.cfs_quota_us"));
            let period = read_number(&folder.join("cpu.cfs_period_us"));
            ("cpu.cfs_quota_us", quota, period)
        };
        Some(GroupQuota {
            group: format!("/{}", below.display()),
            file: file.into(),
            quota_ns: us(quota),
            period_ns: us(period),
        })
    }
}

/// Returns the directory with this inode number, which is the kernel's number of the group.
fn find(folder: &Path, number: u64, depth: usize) -> Option<PathBuf> {
    if folder.metadata().ok()?.ino() == number {
        return Some(folder.into());
    }
    if depth == MAX_DEPTH {
        return None;
    }
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.find_map(|entry| find(&entry.path(), number, depth + 1))
}

fn read_number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn weight_of(nice: i64) -> u64 {
    let place = usize::try_from(nice + 20).unwrap_or_default();
    NICE_WEIGHTS.get(place).copied().unwrap_or(NICE_0)
}

/// Returns the autogroup of a thread from its `/proc/TID/autogroup`, such as `/autogroup-25 nice
/// 0`.
fn autogroup_level(text: &str) -> Option<SchedEntity> {
    let (group, nice) = text.trim().split_once(" nice ")?;
    let nice: i64 = nice.parse().ok()?;
    Some(SchedEntity {
        group: group.into(),
        setting: format!("autogroup, nice {nice}"),
        weight: weight_of(nice),
    })
}

/// Returns the thread's entity from its `/proc/TID/stat`.
fn thread_level(stat: &str) -> Option<SchedEntity> {
    /// Indices of the nice value and the policy after the name: proc(5).
    const NICE: usize = 16;
    const POLICY: usize = 38;
    // The name can contain spaces and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let nice: i64 = fields.get(NICE)?.parse().ok()?;
    let is_idle = fields.get(POLICY) == Some(&POLICY_IDLE);
    Some(SchedEntity {
        group: String::new(),
        setting: if is_idle {
            "SCHED_IDLE".into()
        } else {
            format!("nice {nice}")
        },
        weight: if is_idle { IDLE } else { weight_of(nice) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "42 (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 NICE 1 0 0 0 0 0 0 0 0 0 0 0 \
                        0 0 0 0 0 0 0 1 0 POLICY 0 0";

    fn stat(nice: i64, policy: u32) -> String {
        let stat = STAT.replace("NICE", &nice.to_string());
        stat.replace("POLICY", &policy.to_string())
    }

    fn write(file: &Path, text: &str) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Creates a system below a directory with a thread 42 in these groups.
    fn groups(dir: &Path, is_version_2: bool, cgroup: &str, stat: &str) -> SchedGroups {
        write(&dir.join("proc/42/cgroup"), cgroup);
        write(&dir.join("proc/42/stat"), stat);
        write(&dir.join("proc/42/autogroup"), "/autogroup-25 nice 5\n");
        write(&dir.join("proc/sys/kernel/sched_autogroup_enabled"), "1\n");
        SchedGroups {
            hierarchy: Some(Hierarchy {
                root: dir.join("cgroup"),
                is_version_2,
            }),
            sees_threads: true,
            proc: dir.join("proc"),
            quotas: BTreeMap::new(),
            entities: BTreeMap::new(),
        }
    }

    fn levels(mut groups: SchedGroups) -> Vec<(String, String, u64)> {
        groups.note_thread(Tid(42));
        let levels = groups.entities().remove(&Tid(42)).unwrap_or_default();
        let level = |entity: SchedEntity| (entity.group, entity.setting, entity.weight);
        levels.into_iter().map(level).collect()
    }

    fn level(group: &str, setting: &str, weight: u64) -> (String, String, u64) {
        (group.into(), setting.into(), weight)
    }

    #[test]
    fn entities_of_version_1_are_the_groups_of_the_cpu_hierarchy() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cgroup");
        write(&root.join("a/cpu.shares"), "10\n");
        write(&root.join("a/b/cpu.shares"), "2048\n");
        let cgroup = "5:devices:/x\n4:cpuacct,cpu:/a/b\n0::/y\n";

        let levels = levels(groups(dir.path(), false, cgroup, &stat(-20, 0)));

        let thread = level("", "nice -20", 88761);
        let expected = [
            level("/a", "cpu.shares 10", 10),
            level("/a/b", "cpu.shares 2048", 2048),
            thread,
        ];
        assert_eq!(levels, expected);
    }

    #[test]
    fn entities_of_version_2_end_where_the_controller_is_not_enabled() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cgroup");
        write(&root.join("a/cpu.weight"), "1\n");
        write(&root.join("a/b/cgroup.procs"), "");
        write(&root.join("i/cpu.weight"), "100\n");
        write(&root.join("i/cpu.idle"), "1\n");

        let nested = levels(groups(dir.path(), true, "0::/a/b\n", &stat(0, 0)));
        let idle = levels(groups(dir.path(), true, "0::/i\n", &stat(0, 5)));

        let expected = [level("/a", "cpu.weight 1", 10), level("", "nice 0", 1024)];
        assert_eq!(nested, expected);
        let expected = [level("/i", "cpu.idle 1", 3), level("", "SCHED_IDLE", 3)];
        assert_eq!(idle, expected);
    }

    #[test]
    fn autogroup_counts_only_in_the_root_group() {
        let dir = tempfile::tempdir().unwrap();

        let levels = levels(groups(dir.path(), true, "0::/\n", &stat(0, 0)));

        let autogroup = level("/autogroup-25", "autogroup, nice 5", 335);
        assert_eq!(levels, [autogroup, level("", "nice 0", 1024)]);
    }

    #[test]
    fn quota_is_returned_by_the_number_of_the_group() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("cgroup/a/b");
        write(&folder.join("cpu.max"), "30000 100000\n");
        write(&folder.join("cpu.cfs_quota_us"), "20000\n");
        write(&folder.join("cpu.cfs_period_us"), "50000\n");
        let number = folder.metadata().unwrap().ino();
        let quota = |is_version_2| {
            let mut groups = groups(dir.path(), is_version_2, "", "");
            groups.note_quota(number);
            groups.note_quota(u64::MAX);
            groups.quotas()
        };
        let expected = |file: &str, quota, period| GroupQuota {
            group: "/a/b".into(),
            file: file.into(),
            quota_ns: Some(Nanos::from_ms(quota)),
            period_ns: Some(Nanos::from_ms(period)),
        };

        let version_2 = [(number, expected("cpu.max", 30, 100))].into();
        let version_1 = [(number, expected("cpu.cfs_quota_us", 20, 50))].into();
        assert_eq!(quota(true), version_2);
        assert_eq!(quota(false), version_1);
    }

    #[test]
    fn version_1_hierarchy_of_the_controller_comes_before_version_2() {
        let mounts = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n";
        let cpu = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n";

        let without = hierarchy(mounts).unwrap();
        let with = hierarchy(&format!("{mounts}{cpu}")).unwrap();

        assert!(without.is_version_2);
        assert_eq!(without.root, Path::new("/sys/fs/cgroup/unified"));
        assert!(!with.is_version_2);
        assert_eq!(with.root, Path::new("/sys/fs/cgroup/cpu"));
    }
}
