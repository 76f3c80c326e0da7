//! Other programs that trace events on the path of a wakeup. Each of them delays every wakeup,
//! and this delay is not the machine's.
//!
//! laggard searches before it loads its programs and again after the measurement. Tracers of this
//! process or of its children do not count. Not seen: tracers that start and end in between, and
//! BPF programs that were attached without a link (before Linux 5.15).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use laggard_model::{Caveat, CaveatKind};
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, PerfEventType, ProgInfoIter};

use super::tracefs;

/// Mount points of tracefs in newer and older kernels.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Groups of events on the path of every wakeup, as tracefs names them.
const GROUPS: [&str; 5] = ["ipi", "irq", "irq_vectors", "sched", "timer"];
/// Prefixes of the names of these events.
const EVENT_PREFIXES: [&str; 8] = [
    "ipi_",
    "sched_",
    "irq_",
    "softirq_",
    "hrtimer_",
    "timer_",
    "local_timer_",
    "tick_",
];
/// Link target of a descriptor of a perf event.
const PERF_EVENT: &str = "anon_inode:[perf_event]";
/// Maximum number of names in a warning; the others are counted.
const MAX_NAMES: usize = 4;

/// Tracers other than this process and its children.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Tracers {
    /// Traced events with a BPF program, and the program's name, by the process that holds the
    /// program; `None` if no visible process holds it.
    programs: BTreeMap<Option<String>, BTreeSet<String>>,
    /// Events enabled in tracefs.
    events: BTreeSet<String>,
    /// Processes that hold perf events. Details of the events are not readable.
    perf: BTreeSet<String>,
}

impl Tracers {
    /// Finds the current tracers.
    pub(super) fn look() -> Self {
        let processes = processes(Path::new("/proc"));
        let own = family(&processes, std::process::id());
        let others = processes
            .iter()
            .filter(|process| !own.contains(&process.pid));
        Self {
            programs: held(&attached(), &processes, &own),
            events: TRACEFS
                .iter()
                .map(Path::new)
                .find(|root| root.join("events").is_dir())
                .map(traced_events)
                .unwrap_or_default(),
            perf: others
                .filter(|process| process.has_perf_events)
                .map(Process::title)
                .collect(),
        }
    }

    /// Returns a warning if others trace at the start of the measurement.
    pub(super) fn caveat(&self) -> Option<Caveat> {
        self.told("other programs trace or sample this machine, which delays wakeups")
    }

    /// Returns a warning if processes trace at the end of the measurement that did not trace at
    /// its start, which was `self`.
    pub(super) fn caveat_of_later(&self, end: &Self) -> Option<Caveat> {
        let came = |before: &BTreeSet<String>, now: &BTreeSet<String>| now - before;
        let none = BTreeSet::new();
        let programs = end.programs.iter().map(|(holder, now)| {
            let before = self.programs.get(holder).unwrap_or(&none);
            (holder.clone(), came(before, now))
        });
        let later = Self {
            programs: programs.filter(|(_, now)| !now.is_empty()).collect(),
            events: came(&self.events, &end.events),
            perf: came(&self.perf, &end.perf),
        };
        later.told(
            "other programs started to trace or sample this machine during the measurement, which delays wakeups",
        )
    }

    fn told(&self, what: &str) -> Option<Caveat> {
        let mut tracers = Vec::new();
        for (holder, programs) in &self.programs {
            let suffix = holder.as_ref().map(|holder| format!(" of {holder}"));
            let suffix = suffix.unwrap_or_default();
            tracers.push(format!("BPF programs{suffix} on {}", named(programs)));
        }
        if !self.events.is_empty() {
            tracers.push(format!("tracefs events {}", named(&self.events)));
        }
        if !self.perf.is_empty() {
            tracers.push(format!("perf events of {}", named(&self.perf)));
        }
        (!tracers.is_empty()).then(|| {
            Caveat::new(
                CaveatKind::OtherTracers,
                format!("{what}: {}", tracers.join("; ")),
                "end them during the measurement (find them with `bpftool link list`, `/sys/kernel/tracing/set_event` and `ps`)",
            )
        })
    }
}

/// Maximum number of descriptors that are read, of all processes together: each takes some
/// microseconds, and a user can have millions.
const MAX_DESCRIPTORS: usize = 200_000;

/// Process with the properties that matter here.
#[derive(Debug)]
struct Process {
    pid: u32,
    parent: u32,
    name: String,
    has_perf_events: bool,
    /// IDs of the BPF programs that it holds or links to.
    programs: BTreeSet<u32>,
}

impl Process {
    /// Reads the process, with at most `budget` descriptors, and reduces `budget` by their number.
    fn read(folder: &Path, budget: &mut usize) -> Option<Self> {
        let pid = folder.file_name()?.to_str()?.parse().ok()?;
        let stat = text(&folder.join("stat"));
        // The name before it is in brackets, and may contain brackets.
        let parent = stat.rsplit(") ").next().and_then(|rest| {
            let mut fields = rest.split(' ');
            fields.nth(1)?.parse().ok()
        });
        let mut process = Self {
            pid,
            parent: parent.unwrap_or_default(),
            name: text(&folder.join("comm")),
            has_perf_events: false,
            programs: BTreeSet::new(),
        };
        // Unsorted, because there can be a million of them.
        let descriptors = fs::read_dir(folder.join("fd")).into_iter().flatten();
        for file in descriptors.filter_map(|entry| Some(entry.ok()?.path())) {
            let Some(left) = budget.checked_sub(1) else {
                break;
            };
            *budget = left;
            let Ok(to) = fs::read_link(&file) else {
                continue;
            };
            let to = to.to_string_lossy();
            process.has_perf_events |= to == PERF_EVENT;
            if let Some(number) = file.file_name()
                && to.starts_with("anon_inode:")
                && to.contains("bpf")
            {
                let info = text(&folder.join("fdinfo").join(number));
                let ids = info
                    .lines()
                    .filter_map(|line| line.strip_prefix("prog_id:"));
                let ids = ids.filter_map(|id| id.trim().parse::<u32>().ok());
                process.programs.extend(ids);
            }
        }
        Some(process)
    }

    fn title(&self) -> String {
        format!("{} (process {})", self.name, self.pid)
    }
}

fn processes(proc: &Path) -> Vec<Process> {
    let mut budget = MAX_DESCRIPTORS;
    let folders = entries(proc);
    folders
        .iter()
        .filter_map(|folder| Process::read(folder, &mut budget))
        .collect()
}

/// Returns the PIDs of a process and of all its descendants.
fn family(processes: &[Process], first: u32) -> BTreeSet<u32> {
    let mut family = BTreeSet::from([first]);
    // PIDs wrap, so a child can precede its parent.
    loop {
        let before = family.len();
        let children = processes
            .iter()
            .filter(|process| family.contains(&process.parent));
        let children: Vec<u32> = children.map(|process| process.pid).collect();
        family.extend(children);
        if family.len() == before {
            return family;
        }
    }
}

/// Returns traced events with a BPF program: the program's ID, and both names.
fn attached() -> Vec<(u32, String)> {
    let names: BTreeMap<u32, String> = ProgInfoIter::default()
        .map(|program| (program.id, program.name.to_string_lossy().into_owned()))
        .collect();
    let mut programs = Vec::new();
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
        let Some(event) = event.filter(|event| is_on_wakeup_path(event)) else {
            continue;
        };
        let program = names.get(&link.prog_id).map_or("", String::as_str);
        programs.push((link.prog_id, format!("{event} ({program})")));
    }
    programs
}

/// Returns the programs that do not belong to `own`, by the process that holds them.
fn held(
    programs: &[(u32, String)],
    processes: &[Process],
    own: &BTreeSet<u32>,
) -> BTreeMap<Option<String>, BTreeSet<String>> {
    let mut held = BTreeMap::<_, BTreeSet<String>>::new();
    for (id, words) in programs {
        let mut holders = processes
            .iter()
            .filter(|process| process.programs.contains(id));
        let holder = holders.next();
        if holder.is_some_and(|process| own.contains(&process.pid))
            || holders.any(|process| own.contains(&process.pid))
        {
            continue;
        }
        let of_holder = held.entry(holder.map(Process::title)).or_default();
        of_holder.insert(words.clone());
    }
    held
}

/// Returns whether an event, with or without its group, is on the path of a wakeup.
fn is_on_wakeup_path(event: &str) -> bool {
    let name = event.rsplit([':', '/']).next().unwrap_or(event);
    EVENT_PREFIXES.iter().any(|start| name.starts_with(start))
}

/// Returns enabled events on the path in tracefs and its instances, and tracers that watch the
/// whole kernel.
fn traced_events(root: &Path) -> BTreeSet<String> {
    let is_own = |instance: &PathBuf| tracefs::is_own(instance);
    let mut instances = entries(&root.join("instances"));
    instances.retain(|instance| !is_own(instance));
    let mut events = BTreeSet::new();
    for instance in std::iter::once(root.to_owned()).chain(instances) {
        let tracer = text(&instance.join("current_tracer"));
        if !matches!(tracer.as_str(), "" | "nop") {
            events.insert(format!("tracer {tracer}"));
        }
        for group in GROUPS {
            let folder = instance.join("events").join(group);
            // One file covers the group: `0` if no event is enabled.
            if matches!(text(&folder.join("enable")).as_str(), "" | "0") {
                continue;
            }
            for event in entries(&folder) {
                if text(&event.join("enable")).starts_with('1')
                    && let Some(name) = event.file_name()
                {
                    events.insert(format!("{group}:{}", name.to_string_lossy()));
                }
            }
        }
    }
    events
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    paths
}

/// Returns the text of a short file, or an empty text if it is not readable.
fn text(path: &Path) -> String {
    // The name of a process need not be UTF-8.
    let text = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// Returns some names and the number of further ones.
fn named(names: &BTreeSet<String>) -> String {
    let more = names.len().saturating_sub(MAX_NAMES);
    let some: Vec<&str> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
    let some = some.join(", ");
    match more {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_on_the_path_match_with_and_without_their_group() {
        for event in ["sched_switch", "sched:sched_waking", "irq/softirq_entry"] {
            assert!(is_on_wakeup_path(event), "{event}");
        }
        for event in ["sys_enter", "block_rq_issue", "kmem:kmalloc"] {
            assert!(!is_on_wakeup_path(event), "{event}");
        }
    }

    #[test]
    fn descriptors_are_read_up_to_a_limit_for_all_processes() {
        let proc = tempfile::tempdir().unwrap();
        let folder = proc.path().join("7");
        fs::create_dir_all(folder.join("fd")).unwrap();
        fs::write(folder.join("comm"), b"\xff\n").unwrap();
        for number in ["3", "4"] {
            std::os::unix::fs::symlink(PERF_EVENT, folder.join("fd").join(number)).unwrap();
        }
        let mut budget = 3;

        let first = Process::read(&folder, &mut budget).unwrap();
        let left = budget;
        budget = 0;
        let second = Process::read(&folder, &mut budget).unwrap();

        assert!(first.has_perf_events && left == 1, "{left}");
        assert!(!second.has_perf_events);
        // A name that is not UTF-8 is kept.
        assert_eq!(first.name, "\u{fffd}");
    }

    #[test]
    fn enabled_events_are_named_in_every_instance() {
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

        let events = traced_events(root.path());

        let expected = [
            "sched:sched_switch",
            "timer:hrtimer_start",
            "tracer function",
        ];
        assert_eq!(events, expected.map(String::from).into());
    }

    /// Creates a process in `proc` with one open file `file`.
    fn process(proc: &Path, (pid, parent): (u32, u32), name: &str, (file, info): (&str, &str)) {
        let folder = proc.join(pid.to_string());
        for inner in ["fd", "fdinfo"] {
            fs::create_dir_all(folder.join(inner)).unwrap();
        }
        fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
        let stat = format!("{pid} ({name}) S {parent} 1 1 0\n");
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("fdinfo/3"), info).unwrap();
        std::os::unix::fs::symlink(file, folder.join("fd/3")).unwrap();
    }

    #[test]
    fn holders_of_perf_events_or_programs_are_found_except_our_processes() {
        let proc = tempfile::tempdir().unwrap();
        let link = |id: u32| format!("pos:\t0\nlink_type:\traw_tracepoint\nprog_id:\t{id}\n");
        for (pids, name, file) in [
            ((40, 1), "laggard", ("anon_inode:bpf_link", link(7))),
            // A grandchild, with a PID below its parent's.
            ((39, 41), "work) S 1", ("anon_inode:bpf-prog", link(8))),
            ((41, 40), "load", (PERF_EVENT, String::new())),
            ((50, 1), "perf", (PERF_EVENT, String::new())),
            ((51, 1), "laggard", ("anon_inode:bpf_link", link(9))),
            ((52, 1), "shell", ("/dev/null", link(10))),
        ] {
            process(proc.path(), pids, name, (file.0, &file.1));
        }
        fs::create_dir(proc.path().join("self")).unwrap();

        let all_processes = processes(proc.path());
        let own = family(&all_processes, 40);

        assert_eq!(own, [39, 40, 41].into());
        let strangers = all_processes
            .iter()
            .filter(|process| !own.contains(&process.pid));
        let perf: Vec<String> = strangers
            .filter(|process| process.has_perf_events)
            .map(Process::title)
            .collect();
        assert_eq!(perf, ["perf (process 50)"]);
        let attached: Vec<(u32, String)> = (7..=10).map(|id| (id, format!("e{id}"))).collect();
        let set = |words: &str| BTreeSet::from([words.to_owned()]);
        let expected = [
            (None, set("e10")),
            (Some("laggard (process 51)".into()), set("e9")),
        ];
        assert_eq!(held(&attached, &all_processes, &own), expected.into());
    }

    #[test]
    fn only_tracers_that_started_later_are_reported_at_the_end() {
        let set = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        let tracers = |programs: &[&str], perf: &[&str]| Tracers {
            programs: [(Some("laggard (process 51)".into()), set(programs))].into(),
            events: BTreeSet::new(),
            perf: set(perf),
        };
        let before = tracers(&["sched_switch (a)"], &["perf (process 50)"]);
        let after = tracers(
            &["sched_switch (a)", "sched_waking (b)"],
            &["perf (process 50)"],
        );

        assert_eq!(before.caveat_of_later(&before), None);
        let later = before.caveat_of_later(&after).unwrap().what;
        assert_eq!(
            later,
            "other programs started to trace or sample this machine during the measurement, which delays wakeups: BPF programs of laggard (process 51) on sched_waking (b)"
        );
    }

    #[test]
    fn further_names_are_counted() {
        let names: BTreeSet<String> = (0..6).map(|n| n.to_string()).collect();

        assert_eq!(named(&names), "0, 1, 2, 3 and 2 more");
        assert_eq!(named(&["0".into(), "1".into()].into()), "0, 1");
    }
}
