//! A measurement does not change settings of the host, neither during the measurement nor after it.
//!
//! The test also detects a setting that is changed and restored within any short time, because the
//! kernel reports each write to its file. It does not detect changes without a write: the
//! scheduling of another thread, registers of the processor, and settings that only an open
//! descriptor holds (except requests to keep CPUs awake, which are checked).
//!
//! The test needs root for the settings that a measurement could change. Without root it prints
//! that it is skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::scripted::{command as laggard, has_samples, signal, wait_for};

/// Folders and the settings in them that a tool for latency may be tempted to
/// change. Files that count or that differ at each reading are left out.
const SETTINGS: [(&str, &str); 9] = [
    ("/proc/sys/kernel", "sched_"),
    ("/proc/sys/kernel", "timer_migration"),
    ("/proc/sys/kernel", "watchdog"),
    ("/proc/sys/kernel", "bpf_stats_enabled"),
    ("/proc/sys/kernel", "perf_event_"),
    ("/proc/sys/vm", ""),
    ("/sys/module/workqueue/parameters", ""),
    ("/sys/kernel/tracing", "current_tracer"),
    ("/sys/kernel/tracing/events", "enable"),
];
/// Settings of each CPU.
const OF_A_CPU: [&str; 4] = [
    "cpufreq/scaling_governor",
    "cpufreq/scaling_min_freq",
    "cpuidle/state1/disable",
    "online",
];

/// The settings that can be read.
fn settings() -> BTreeMap<String, String> {
    let mut paths: Vec<std::path::PathBuf> = Vec::new();
    for (folder, prefix) in SETTINGS {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let wanted =
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
        paths.extend(wanted.map(|entry| entry.path()));
    }
    for folder in ["/sys/devices/system/cpu", "/proc/irq"] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            paths.extend(OF_A_CPU.map(|name| entry.path().join(name)));
            paths.push(entry.path().join("smp_affinity"));
        }
    }
    let read = paths.into_iter().filter_map(|path| {
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path.display().to_string(), text))
    });
    // The kernel's own counters among them.
    read.filter(|(path, _)| !path.ends_with("stat_refresh"))
        .collect()
}

/// Tells of every write to some files.
struct Writes {
    /// Descriptor of inotify(7).
    events: File,
    paths: BTreeMap<i32, String>,
    /// A file that no process has open could be replaced by another inode.
    _open: Vec<File>,
}

impl Writes {
    /// Watches each of `paths`.
    fn to<'a>(paths: impl Iterator<Item = &'a String>) -> Self {
        // SAFETY: the arguments are integers.
        let events = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
        assert!(events >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: just opened, and not used elsewhere.
        let events = unsafe { File::from_raw_fd(events) };
        let mut watched = BTreeMap::new();
        let mut open = Vec::new();
        for path in paths {
            open.push(File::open(path).unwrap());
            let name = CString::new(path.as_str()).unwrap();
            // SAFETY: `name` ends in a null byte and outlives the call.
            let id = unsafe {
                libc::inotify_add_watch(events.as_raw_fd(), name.as_ptr(), libc::IN_MODIFY)
            };
            assert!(id >= 0, "{path}: {}", std::io::Error::last_os_error());
            watched.insert(id, path.clone());
        }
        Self {
            events,
            paths: watched,
            _open: open,
        }
    }

    /// The files that were written to since the call before.
    fn since(&mut self) -> BTreeSet<String> {
        /// `struct inotify_event` of a file: its number, then three words.
        const EVENT_BYTES: usize = 16;
        let mut written = BTreeSet::new();
        let mut bytes = [0; 256 * EVENT_BYTES];
        loop {
            let length = match self.events.read(&mut bytes) {
                Err(err) if err.kind() == ErrorKind::WouldBlock => return written,
                result => result.unwrap(),
            };
            for event in bytes[..length].chunks_exact(EVENT_BYTES) {
                let id = i32::from_ne_bytes(event[..4].try_into().unwrap());
                let path = self.paths.get(&id);
                written.insert(path.map_or("too many at once".into(), String::clone));
            }
        }
    }
}

/// Returns true if `process` holds a request to keep CPUs awake.
fn keeps_awake(process: &Child) -> bool {
    let files = std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap();
    let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    targets
        .into_iter()
        .any(|target| target == Path::new("/dev/cpu_dma_latency"))
}

/// Starts a recording of all services, and waits until it measures.
fn recording(dir: &TempDir, more: &[&str]) -> Child {
    let to = dir.path().join("r.laggard");
    let mut child = laggard()
        .args(["record", "--quiet", "--duration", "1h", "--output"])
        .arg(&to)
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("it measures", || {
        assert_eq!(child.try_wait().unwrap(), None);
        has_samples(&to)
    });
    child
}

#[test]
fn a_recording_changes_no_setting_of_the_host_unless_asked() {
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout != b"0\n" {
        println!("skipped: it takes root to change a setting");
        return;
    }
    let before = settings();
    assert!(before.len() > 20, "{before:?}");
    let mut writes = Writes::to(before.keys());

    let dir = TempDir::new().unwrap();
    let mut child = recording(&dir, &[]);
    let during = settings();
    let keeps_awake_by_default = keeps_awake(&child);
    signal(child.id(), "INT");
    child.wait().unwrap();
    for (when, current) in [("while it measures", during), ("afterwards", settings())] {
        for (path, value) in &before {
            assert_eq!(current.get(path), Some(value), "{path} {when}");
        }
    }
    assert_eq!(writes.since(), BTreeSet::new(), "written to and put back");
    assert!(!keeps_awake_by_default);
    let path = "/proc/sys/vm/swappiness";
    // Writes the current value, which changes nothing.
    match std::fs::write(path, &before[path]) {
        Ok(()) => assert_eq!(writes.since(), BTreeSet::from([path.into()])),
        Err(err) => println!("skipped: that writes are noticed: {path}: {err}"),
    }
    if !Path::new("/dev/cpu_dma_latency").exists() {
        println!("skipped: keeping CPUs awake, without /dev/cpu_dma_latency");
        return;
    }
    let dir = TempDir::new().unwrap();
    let mut child = recording(&dir, &["--hold-cpu-awake"]);
    let held = keeps_awake(&child);
    signal(child.id(), "INT");
    child.wait().unwrap();
    assert!(held);
}
