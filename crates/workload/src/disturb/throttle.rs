//! Exhausted bandwidth: a control group beyond its quota, and real-time threads beyond
//! their share.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use laggard_files::PutBack;
use laggard_model::{Cpu, CpuList, Nanos};

use super::hog::ABOVE_ALL;
use super::{DisturbError, Hit, Site, clock};
use crate::load::Launch;
use crate::scheduling::Policy;

/// Interval between readings of the group's counters: the precision of a hit's start.
const POLL: Nanos = Nanos::from_us(500);

/// Runs a busy process and the plan's victims in a control group whose quota is `every`
/// minus `length` in every `every`.
///
/// If other work leaves the group less CPU time than its quota, the group is never throttled, and
/// hits do not occur.
///
/// The length of each hit is the kernel's counter, which adds up the throttled times of the group
/// on all CPUs. A hit ends when the counter has increased. Its start follows from the length.
pub(super) fn group(site: &Site<'_>) -> Result<Vec<Hit>, DisturbError> {
    let plan = site.plan;
    let mut victims = plan.victims.clone();
    victims.sort_unstable();
    victims.dedup();
    let group = Group::new(plan.every.saturating_sub(plan.length), plan.every, &victims)
        .map_err(site.needs("make a control group with a CPU quota; it needs root and the cpu controller below /sys/fs/cgroup"))?;
    let busy = ["/bin/sh", "-c", "while :; do :; done"].map(Into::into);
    let hog = Launch::new(busy.to_vec())
        .cpus(CpuList::from_iter([plan.cpu]))
        .start()
        .map_err(io::Error::other)
        .map_err(site.needs("start a busy process"))?;
    let busy = (BUSY.to_owned(), hog.id());
    let victims = victims.iter().map(|&pid| (pid.to_string(), pid));
    for (name, pid) in std::iter::once(busy).chain(victims) {
        group
            .bring(&name, pid)
            .map_err(site.needs(format!("move process {pid} into the control group")))?;
    }
    // On a busy machine, a normal thread would wait for its turn for longer than a
    // throttling lasts.
    let hits = site.in_thread(|| {
        site.place(ABOVE_ALL)?;
        watch(site, &group)
    })?;
    hog.stop()
        .map_err(io::Error::other)
        .map_err(site.needs("stop the busy process"))?;
    group.end().map_err(site.needs(
        "move the processes back to their control group and remove the group with the quota",
    ))?;
    Ok(hits)
}

fn watch(site: &Site<'_>, group: &Group) -> Result<Vec<Hit>, DisturbError> {
    let read = || {
        group
            .throttled()
            .map_err(site.needs("read the control group's cpu.stat"))
    };
    let end = clock::now() + site.plan.duration;
    let mut log = site.log();
    let mut before = read()?;
    while clock::now() < end && site.wait_until(clock::now() + POLL) {
        let throttled = read()?;
        let length = throttled.saturating_sub(before);
        before = throttled;
        if length > Nanos::ZERO {
            log.push(site.hit(clock::now().saturating_sub(length), length));
        }
    }
    Ok(log.hits)
}

/// Prefix of the names of laggard groups, before the process ID.
const PREFIX: &str = "laggard-";

/// Subgroup of the busy process.
const BUSY: &str = "busy";

/// Moves the processes back and removes the group `$1`. The following arguments are the
/// process ID and the `cgroup.procs` of the home of each victim. Processes that a
/// victim started are in its subgroup, too. If a home no longer exists, the root of the
/// controller is used.
const UNDO: &str = r#"
group=$1 root=${1%/*}/cgroup.procs
shift
leave() {
    tries=0
    while [ -d "$1" ] && [ "$tries" -lt 50 ]; do
        while read -r process; do
            printf '%s\n' "$process" >"$2" || printf '%s\n' "$process" >"$root"
        done <"$1/cgroup.procs"
        rmdir "$1" || { tries=$((tries + 1)); sleep 0.1; }
    done
}
while [ $# -gt 1 ]; do
    leave "$group/$1" "$2" 2>/dev/null
    shift 2
done
while read -r process; do
    kill -KILL "$process"
done 2>/dev/null <"$group/busy/cgroup.procs"
leave "$group/busy" "$root" 2>/dev/null
leave "$group" "$root" 2>/dev/null
[ ! -d "$group" ]
"#;

/// Control group of either version with a CPU quota and a subgroup for the busy process
/// and each victim. When this value is dropped, and when this program is killed, the
/// victims return to their groups, and the group is removed.
struct Group {
    folder: PathBuf,
    back: PutBack,
}

/// Directories of the cpu controller, each with a file that marks it.
const CONTROLLERS: [(&str, &str); 3] = [
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
    ("/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us"),
    ("/sys/fs/cgroup", "cpu.max"),
];

impl Group {
    fn new(quota: Nanos, period: Nanos, victims: &[u32]) -> io::Result<Self> {
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        for (controller, limit) in CONTROLLERS {
            let controller = Path::new(controller);
            if !controller.is_dir() {
                continue;
            }
            clear_stale(controller);
            let made = Self::make(controller, victims)
                .and_then(|group| group.limit(limit, quota, period).map(|()| group));
            match made {
                Ok(group) => return Ok(group),
                Err(err) => refused = err,
            }
        }
        Err(refused)
    }

    fn make(controller: &Path, victims: &[u32]) -> io::Result<Self> {
        let folder = controller.join(format!("{PREFIX}{}", std::process::id()));
        let mut arguments = vec![folder.clone().into_os_string()];
        for pid in victims {
            let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
            let home = home(&groups).ok_or(io::ErrorKind::InvalidData)?;
            let home = controller.join(home).join("cgroup.procs");
            arguments.extend([pid.to_string().into(), home.into_os_string()]);
        }
        let back = PutBack::at_end(
            UNDO,
            &arguments,
            None,
            format!(
                "the control group `{0}` is still there; move each process of the cgroup.procs below it to another group, and remove it (rmdir)",
                folder.display()
            ),
        )?;
        fs::create_dir(&folder)?;
        Ok(Self { folder, back })
    }

    fn limit(&self, limit: &str, quota: Nanos, period: Nanos) -> io::Result<()> {
        let (quota_us, period_us) = (quota.ns() / 1000, period.ns() / 1000);
        match limit {
            "cpu.max" => self.write(limit, format!("{quota_us} {period_us}")),
            _ => self
                .write("cpu.cfs_period_us", period_us.to_string())
                .and_then(|()| self.write(limit, quota_us.to_string())),
        }
    }

    fn write(&self, name: &str, text: String) -> io::Result<()> {
        fs::write(self.folder.join(name), text)
    }

    /// Moves a process into a new subgroup.
    fn bring(&self, name: &str, pid: u32) -> io::Result<()> {
        let subgroup = self.folder.join(name);
        fs::create_dir(&subgroup)?;
        fs::write(subgroup.join("cgroup.procs"), pid.to_string())
    }

    /// Returns the total throttled time of the group, up to its last start.
    fn throttled(&self) -> io::Result<Nanos> {
        let text = fs::read_to_string(self.folder.join("cpu.stat"))?;
        let figure = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim().parse().ok()
        };
        figure("throttled_time ")
            .map(Nanos::from_ns)
            .or_else(|| figure("throttled_usec ").map(Nanos::from_us))
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Moves the victims back and removes the group.
    fn end(self) -> io::Result<()> {
        let Self { folder, back } = self;
        drop(back);
        if folder.exists() {
            Err(io::ErrorKind::ResourceBusy.into())
        } else {
            Ok(())
        }
    }
}

/// Removes groups below `controller` that remain after both this program and the shell
/// that undoes its changes were killed. Their processes move into the parent group. A
/// group that cannot be removed stays.
fn clear_stale(controller: &Path) {
    let Ok(entries) = fs::read_dir(controller) else {
        return;
    };
    for folder in entries.flatten().map(|entry| entry.path()) {
        let maker = folder
            .file_name()
            .and_then(|name| name.to_str()?.strip_prefix(PREFIX)?.parse::<u32>().ok());
        let is_stale = maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if !is_stale {
            continue;
        }
        let subgroups = fs::read_dir(&folder).into_iter().flatten().flatten();
        let subgroups = subgroups.map(|entry| entry.path());
        for group in subgroups
            .filter(|path| path.is_dir())
            .chain([folder.clone()])
        {
            let left = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            for pid in left.lines() {
                let _ = fs::write(controller.join("cgroup.procs"), pid);
            }
            let _ = fs::remove_dir(&group);
        }
    }
}

/// Returns the group of a process below the cpu controller, from its
/// `/proc/PID/cgroup`.
fn home(text: &str) -> Option<&str> {
    let group_of = |wanted: &str| {
        text.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let has_controller = controllers.split(',').any(|name| name == wanted);
            has_controller.then(|| path.trim_start_matches('/'))
        })
    };
    // In a cgroup namespace, a group outside of it is shown below `/..`.
    group_of("cpu")
        .or_else(|| group_of(""))
        .filter(|path| path.split('/').all(|part| part != ".."))
}

/// Runs a thread above all others that never sleeps, and a normal thread that needs the same CPU.
/// Without the normal thread, new kernels do not throttle.
///
/// A hit is an interval without a run of the thread, of at least half the kernel's pause.
pub(super) fn real_time(site: &Site<'_>) -> Result<Vec<Hit>, DisturbError> {
    let pause = pause(site.plan.cpu).map_err(site.needs(
        "find the part that normal threads have; set it with `sysctl -w kernel.sched_rt_runtime_us=950000`, or since Linux 6.12 in /sys/kernel/debug/sched/fair_server",
    ))?;
    let least = Nanos::from_ns(pause.ns() / 2);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let beside = thread::Builder::new()
            .name("lag/beside".into())
            .spawn_scoped(scope, || {
                site.place(Policy::Other)?;
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                Ok::<_, DisturbError>(())
            })
            .map_err(site.needs("start another thread"))?;
        let hits = site.in_thread(|| {
            site.place(ABOVE_ALL)?;
            // Tools see the priority of a thread when it is switched in.
            clock::sleep_until(clock::now() + POLL);
            Ok(pauses(site, least))
        });
        done.store(true, Ordering::Relaxed);
        beside
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        hits
    })
}

/// Runs without sleeping until the plan's end and records the times when it could not run.
fn pauses(site: &Site<'_>, min_pause: Nanos) -> Vec<Hit> {
    let mut log = site.log();
    let mut last = clock::now();
    let end = last + site.plan.duration;
    while last < end && !site.is_stopped() {
        let now = clock::now();
        let gap = now.saturating_sub(last);
        if gap >= min_pause {
            log.push(site.hit(last, gap));
        }
        last = now;
    }
    log.hits
}

/// Returns the throttled time per period of real-time threads on `cpu`: since Linux 6.12 the budget
/// of the fair server for waiting normal threads, if it is readable.
fn pause(cpu: Cpu) -> io::Result<Nanos> {
    let server = format!("/sys/kernel/debug/sched/fair_server/cpu{}/runtime", cpu.0);
    if let Ok(text) = fs::read_to_string(server) {
        return match text.trim().parse().map_err(io::Error::other)? {
            0 => Err(io::Error::other(
                "the kernel does not throttle real-time threads",
            )),
            runtime => Ok(Nanos::from_ns(runtime)),
        };
    }
    let read = |name: &str| -> io::Result<u64> {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}"))?;
        text.trim().parse().map_err(io::Error::other)
    };
    // -1 means that there is no limit. It does not fit into this type, so it is an error, as
    // intended.
    let (period, runtime) = (read("sched_rt_period_us")?, read("sched_rt_runtime_us")?);
    match period.checked_sub(runtime) {
        None | Some(0) => Err(io::Error::other(
            "the kernel does not throttle real-time threads",
        )),
        Some(pause) => Ok(Nanos::from_us(pause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_ended_processes_are_cleared() {
        let controller = tempfile::tempdir().unwrap();
        let group = |name: &str| controller.path().join(name);
        let own = format!("{PREFIX}{}", std::process::id());
        // No process has this ID: it is above the kernel's maximum.
        for name in ["laggard-4194305", own.as_str(), "laggard-x", "other"] {
            fs::create_dir(group(name)).unwrap();
        }

        clear_stale(controller.path());

        assert!(!group("laggard-4194305").exists());
        for name in [own.as_str(), "laggard-x", "other"] {
            assert!(group(name).exists(), "{name}");
        }
    }

    #[test]
    fn group_of_a_process_is_found_in_both_versions() {
        for (text, group) in [
            (
                "3:cpuset:/\n2:cpu,cpuacct:/user.slice\n0::/\n",
                "user.slice",
            ),
            ("1:cpu:/\n0::/other\n", ""),
            ("0::/user.slice/a.scope\n", "user.slice/a.scope"),
        ] {
            assert_eq!(home(text), Some(group), "for {text:?}");
        }
        // Group outside our cgroup namespace.
        assert_eq!(home("0::/../other\n"), None);
    }
}
