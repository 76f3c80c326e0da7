//! Other programs that trace what happens on the way of an activation: each
//! of them delays every activation, and that is not the machine's.
//!
//! Looked for before our own programs are there, so that whatever is found is
//! somebody else's. Not seen: what begins later, and BPF programs that were
//! attached without a link (before Linux 5.15).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use laggard_model::{Caveat, CaveatKind};
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, PerfEventType, ProgInfoIter};

/// Where tracefs is mounted, in newer kernels and older ones.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Groups of events on the way of every activation, as tracefs has them.
const GROUPS: [&str; 4] = ["irq", "irq_vectors", "sched", "timer"];
/// How the names of these events begin.
const BEGINNINGS: [&str; 7] = [
    "sched_",
    "irq_",
    "softirq_",
    "hrtimer_",
    "timer_",
    "local_timer_",
    "tick_",
];
/// What a process that holds a perf event has open.
const PERF_EVENT: &str = "anon_inode:[perf_event]";
/// Names that a caveat tells; the others are counted.
const NAMED: usize = 4;

/// A caveat where others trace.
pub(super) fn caveat() -> Option<Caveat> {
    let mut found = Vec::new();
    let bpf = bpf_programs();
    if !bpf.is_empty() {
        found.push(format!("BPF programs on {}", named(&bpf)));
    }
    let events: Vec<String> = TRACEFS
        .iter()
        .map(Path::new)
        .find(|root| root.join("events").is_dir())
        .map(traced_events)
        .unwrap_or_default();
    if !events.is_empty() {
        found.push(format!("tracefs events {}", named(&events)));
    }
    let perf = holders_of_perf_events(Path::new("/proc"));
    if !perf.is_empty() {
        found.push(format!("perf events of {}", named(&perf)));
    }
    (!found.is_empty()).then(|| {
        Caveat::new(
            CaveatKind::OtherTracers,
            format!(
                "other programs trace or sample this machine, which delays activations: {}",
                found.join("; ")
            ),
            "end them while measuring (`bpftool link list`, `/sys/kernel/tracing/set_event` and `ps` show whose they are)",
        )
    })
}

/// Events on the way with a BPF program of somebody's, and its name.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel's kinds of links"
)]
fn bpf_programs() -> Vec<String> {
    let names: BTreeMap<u32, String> = ProgInfoIter::default()
        .map(|program| (program.id, program.name.to_string_lossy().into_owned()))
        .collect();
    let mut found = BTreeSet::new();
    for link in LinkInfoIter::default() {
        let event = match link.info {
            LinkTypeInfo::RawTracepoint(raw) => Some(raw.name),
            LinkTypeInfo::PerfEvent(perf) => match perf.event_type {
                PerfEventType::Tracepoint { name, .. } => {
                    name.map(|name| name.to_string_lossy().into_owned())
                }
                _ => None,
            },
            _ => None,
        };
        let Some(event) = event.filter(|event| is_on_the_way(event)) else {
            continue;
        };
        let program = names.get(&link.prog_id).map_or("", String::as_str);
        found.insert(format!("{event} ({program})"));
    }
    found.into_iter().collect()
}

/// Whether an event, with or without its group, is on the way of an activation.
fn is_on_the_way(event: &str) -> bool {
    let name = event.rsplit([':', '/']).next().unwrap_or(event);
    BEGINNINGS.iter().any(|start| name.starts_with(start))
}

/// Events on the way that are switched on in tracefs or an instance of it, and
/// tracers that watch all the kernel does.
fn traced_events(root: &Path) -> Vec<String> {
    let instances = entries(&root.join("instances"));
    let mut found = BTreeSet::new();
    for one in std::iter::once(root.to_owned()).chain(instances) {
        let tracer = text(&one.join("current_tracer"));
        if !matches!(tracer.as_str(), "" | "nop") {
            found.insert(format!("tracer {tracer}"));
        }
        for group in GROUPS {
            let folder = one.join("events").join(group);
            // One file tells of all the group: `0` where none is on.
            if matches!(text(&folder.join("enable")).as_str(), "" | "0") {
                continue;
            }
            for event in entries(&folder) {
                if text(&event.join("enable")).starts_with('1')
                    && let Some(name) = event.file_name()
                {
                    found.insert(format!("{group}:{}", name.to_string_lossy()));
                }
            }
        }
    }
    found.into_iter().collect()
}

/// Processes that hold perf events, of which nothing more can be read.
fn holders_of_perf_events(proc: &Path) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for process in entries(proc) {
        let Some(pid) = process.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if pid == own || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let holds = entries(&process.join("fd"))
            .iter()
            .any(|file| fs::read_link(file).is_ok_and(|to| to == Path::new(PERF_EVENT)));
        if holds {
            found.push(format!("{} (process {pid})", text(&process.join("comm"))));
        }
    }
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|one| Some(one.ok()?.path())).collect();
    paths.sort();
    paths
}

/// A short file's text; empty where it cannot be read.
fn text(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}

/// Some names, and how many more there are.
fn named(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let some = names[..names.len() - more].join(", ");
    match more {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_on_the_way_are_known_with_and_without_their_group() {
        for event in ["sched_switch", "sched:sched_waking", "irq/softirq_entry"] {
            assert!(is_on_the_way(event), "{event}");
        }
        for event in ["sys_enter", "block_rq_issue", "kmem:kmalloc"] {
            assert!(!is_on_the_way(event), "{event}");
        }
    }

    #[test]
    fn events_that_are_switched_on_are_named_in_every_instance() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("current_tracer", "nop\n");
        write("events/sched/enable", "X\n");
        write("events/sched/sched_switch/enable", "1\n");
        write("events/sched/sched_waking/enable", "0\n");
        write("events/block/enable", "1\n");
        write("events/block/block_rq_issue/enable", "1\n");
        write("events/timer/enable", "0\n");
        write("instances/mine/current_tracer", "function\n");
        write("instances/mine/events/timer/enable", "X\n");
        write("instances/mine/events/timer/hrtimer_start/enable", "1*\n");

        let found = traced_events(root.path());

        assert_eq!(
            found,
            [
                "sched:sched_switch",
                "timer:hrtimer_start",
                "tracer function"
            ]
        );
    }

    #[test]
    fn who_holds_perf_events_is_named() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, comm, file) in [
            ("41", "perf", PERF_EVENT),
            ("42", "shell", "/dev/null"),
            ("self", "perf", PERF_EVENT),
        ] {
            let process = proc.path().join(pid);
            fs::create_dir_all(process.join("fd")).unwrap();
            fs::write(process.join("comm"), format!("{comm}\n")).unwrap();
            std::os::unix::fs::symlink(file, process.join("fd/3")).unwrap();
        }

        assert_eq!(holders_of_perf_events(proc.path()), ["perf (process 41)"]);
    }

    #[test]
    fn many_are_counted() {
        let names: Vec<String> = (0..6).map(|n| n.to_string()).collect();

        assert_eq!(named(&names), "0, 1, 2, 3 and 2 more");
        assert_eq!(named(&names[..2]), "0, 1");
    }
}
