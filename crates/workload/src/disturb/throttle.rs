//! Bandwidth used up: a control group beyond its quota, and real-time threads
//! beyond their share.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use laggard_model::{Cpu, CpuList, Nanos};

use super::hog::ABOVE_ALL;
use super::{DisturbError, Hit, Site, clock};
use crate::load::Launch;
use crate::scheduling::Policy;

/// How often the group's counters are read: a hit's start is known to this.
const POLL: Nanos = Nanos::from_us(500);

/// A busy process and the plan's victims in a control group that may run
/// `every - length` in every `every`.
///
/// Where other work leaves the group less than its quota, it is never
/// stopped, and there are no hits.
///
/// The length of each hit is the kernel's own figure, which adds up the CPUs
/// on which the group was stopped. Its end, and so its start, is when that
/// figure was seen to have grown.
pub(super) fn group(site: &Site<'_>) -> Result<Vec<Hit>, DisturbError> {
    let plan = site.plan;
    let group = Group::new(plan.every.saturating_sub(plan.length), plan.every)
        .map_err(site.needs("make a control group with a CPU quota; it needs root and the cpu controller below /sys/fs/cgroup"))?;
    let busy = ["/bin/sh", "-c", "while :; do :; done"].map(Into::into);
    let hog = Launch::new(busy.to_vec())
        .cpus(CpuList::from_iter([plan.cpu]))
        .start()
        .map_err(io::Error::other)
        .map_err(site.needs("start a busy process"))?;
    let mut guests = Guests::default();
    for &pid in std::iter::once(&hog.id()).chain(&plan.victims) {
        guests
            .bring(&group, pid)
            .map_err(site.needs(format!("move process {pid} into the control group")))?;
    }
    // A normal thread would have to wait for its turn, on a busy machine for
    // longer than a stop lasts.
    let hits = site.in_thread(|| {
        site.place(ABOVE_ALL)?;
        watch(site, &group)
    })?;
    guests
        .take_back()
        .map_err(site.needs("move the processes back to their control group"))?;
    hog.stop()
        .map_err(io::Error::other)
        .map_err(site.needs("stop the busy process"))?;
    group
        .remove()
        .map_err(site.needs("remove the control group"))?;
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

/// What our groups are called, before the number of the process.
const PREFIX: &str = "laggard-";

/// A control group of our own, of either version; removed at the latest when
/// this value is dropped.
struct Group {
    folder: PathBuf,
}

/// Where the cpu controller is, by the file that a group with it has.
const CONTROLLERS: [(&str, &str); 3] = [
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
    ("/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us"),
    ("/sys/fs/cgroup", "cpu.max"),
];

impl Group {
    fn new(quota: Nanos, period: Nanos) -> io::Result<Self> {
        let (quota_us, period_us) = (quota.ns() / 1000, period.ns() / 1000);
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        for (controller, limit) in CONTROLLERS {
            clear_stale(Path::new(controller));
            let folder = Path::new(controller).join(format!("{PREFIX}{}", std::process::id()));
            if let Err(err) = fs::create_dir(&folder) {
                refused = err;
                continue;
            }
            let group = Self { folder };
            let set = match limit {
                "cpu.max" => group.write(limit, format!("{quota_us} {period_us}")),
                _ => group
                    .write("cpu.cfs_period_us", period_us.to_string())
                    .and_then(|()| group.write(limit, quota_us.to_string())),
            };
            match set {
                Ok(()) => return Ok(group),
                Err(err) => refused = err,
            }
        }
        Err(refused)
    }

    fn write(&self, name: &str, text: String) -> io::Result<()> {
        fs::write(self.folder.join(name), text)
    }

    /// For how long the group was stopped, in all, up to its last start.
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

    /// Removes the group, which must be empty.
    fn remove(&self) -> io::Result<()> {
        fs::remove_dir(&self.folder)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // After `remove` there is nothing left to remove; before it, an error
        // of its own is on its way.
        let _ = self.remove();
    }
}

/// Removes groups below `controller` that a killed process of ours has left,
/// and puts whoever is in them into the group above; its busy process has
/// ended with it.
/// What cannot be removed stays, as it was.
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
        let left = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        for pid in left.lines() {
            let _ = fs::write(controller.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&folder);
    }
}

/// Processes in a group that is not theirs, and where they belong. They go
/// back at the latest when this value is dropped.
#[derive(Default)]
struct Guests(Vec<(u32, PathBuf)>);

impl Guests {
    fn bring(&mut self, group: &Group, pid: u32) -> io::Result<()> {
        let controller = group.folder.parent().unwrap_or(Path::new("/"));
        let home = home(&fs::read_to_string(format!("/proc/{pid}/cgroup"))?)
            .map(|path| controller.join(path).join("cgroup.procs"))
            .ok_or(io::ErrorKind::InvalidData)?;
        group.write("cgroup.procs", pid.to_string())?;
        self.0.push((pid, home));
        Ok(())
    }

    fn take_back(&mut self) -> io::Result<()> {
        let mut outcome = Ok(());
        for (pid, home) in self.0.drain(..) {
            let alive = Path::new(&format!("/proc/{pid}")).exists();
            if let Err(err) = fs::write(home, pid.to_string())
                && alive
            {
                outcome = Err(err);
            }
        }
        outcome
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        // After `take_back` nobody is left; before it, an error of its own is
        // on its way.
        let _ = self.take_back();
    }
}

/// A process's group below the cpu controller, from its `/proc/PID/cgroup`.
fn home(text: &str) -> Option<&str> {
    let group_of = |wanted: &str| {
        text.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let found = controllers.split(',').any(|name| name == wanted);
            found.then(|| path.trim_start_matches('/'))
        })
    };
    // In a cgroup namespace, a group outside of it is shown below `/..`.
    group_of("cpu")
        .or_else(|| group_of(""))
        .filter(|path| path.split('/').all(|part| part != ".."))
}

/// A thread above all others that never sleeps, beside a normal thread that
/// needs the CPU too: without one, new kernels have nobody to stop it for.
///
/// A hit is a time in which it did not run, of at least half the pause that the kernel
/// makes.
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
            // Tools see a thread's priority when it is switched in.
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

/// Runs without sleeping until the plan's end, and notes when it could not.
fn pauses(site: &Site<'_>, least: Nanos) -> Vec<Hit> {
    let mut log = site.log();
    let mut last = clock::now();
    let end = last + site.plan.duration;
    while last < end && !site.is_stopped() {
        let now = clock::now();
        let gap = now.saturating_sub(last);
        if gap >= least {
            log.push(site.hit(last, gap));
        }
        last = now;
    }
    log.hits
}

/// How long real-time threads are stopped in each period on `cpu`: since Linux 6.12 what
/// the fair server gives normal threads that wait, where that can be read.
fn pause(cpu: Cpu) -> io::Result<Nanos> {
    let server = format!("/sys/kernel/debug/sched/fair_server/cpu{}/runtime", cpu.0);
    if let Ok(text) = fs::read_to_string(server) {
        return match text.trim().parse().map_err(io::Error::other)? {
            0 => Err(io::Error::other("they have none")),
            runtime => Ok(Nanos::from_ns(runtime)),
        };
    }
    let read = |name: &str| -> io::Result<u64> {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}"))?;
        text.trim().parse().map_err(io::Error::other)
    };
    // -1, no share, is not a number of this type: an error, as it should be.
    let (period, runtime) = (read("sched_rt_period_us")?, read("sched_rt_runtime_us")?);
    match period.checked_sub(runtime) {
        None | Some(0) => Err(io::Error::other("they have none")),
        Some(pause) => Ok(Nanos::from_us(pause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_whose_maker_is_gone_are_cleared() {
        let controller = tempfile::tempdir().unwrap();
        let group = |name: &str| controller.path().join(name);
        let own = format!("{PREFIX}{}", std::process::id());
        // No process has this number: it is above the kernel's largest.
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
    fn a_process_s_group_is_found_in_both_versions() {
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
        // Of a group outside of our cgroup namespace.
        assert_eq!(home("0::/../other\n"), None);
    }
}
