//! Other programs that trace what happens on the way of an activation: each
//! of them delays every activation, and that is not the machine's.
//!
//! Looked for before our own programs are there and again when measuring has
//! ended; what belongs to this process or to one that it started is ours. Not
//! seen: what comes and goes in between, and BPF programs that were attached
//! without a link (before Linux 5.15).

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

/// Who traces, beside this process and those that it started.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Tracers {
    /// Events on the way with a BPF program, and its name, by who holds it;
    /// nobody's where no process that can be seen does.
    programs: BTreeMap<Option<String>, BTreeSet<String>>,
    /// Of tracefs.
    events: BTreeSet<String>,
    /// Who holds perf events, of which nothing more can be read.
    perf: BTreeSet<String>,
}

impl Tracers {
    /// Those of now.
    pub(super) fn look() -> Self {
        let processes = processes(Path::new("/proc"));
        let own = family(&processes, std::process::id());
        let others = processes.iter().filter(|one| !own.contains(&one.pid));
        Self {
            programs: held(&attached(), &processes, &own),
            events: TRACEFS
                .iter()
                .map(Path::new)
                .find(|root| root.join("events").is_dir())
                .map(traced_events)
                .unwrap_or_default(),
            perf: others
                .filter(|one| one.has_perf_events)
                .map(Process::title)
                .collect(),
        }
    }

    /// A caveat where others trace as measuring begins.
    pub(super) fn caveat(&self) -> Option<Caveat> {
        self.told("other programs trace or sample this machine, which delays activations")
    }

    /// A caveat where others trace as measuring ends who did not at its
    /// beginning, which was `self`.
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
            "other programs began to trace or sample this machine while it was measured, which delays activations",
        )
    }

    fn told(&self, what: &str) -> Option<Caveat> {
        let mut found = Vec::new();
        for (holder, programs) in &self.programs {
            let of = holder.as_ref().map(|one| format!(" of {one}"));
            let of = of.unwrap_or_default();
            found.push(format!("BPF programs{of} on {}", named(programs)));
        }
        if !self.events.is_empty() {
            found.push(format!("tracefs events {}", named(&self.events)));
        }
        if !self.perf.is_empty() {
            found.push(format!("perf events of {}", named(&self.perf)));
        }
        (!found.is_empty()).then(|| {
            Caveat::new(
                CaveatKind::OtherTracers,
                format!("{what}: {}", found.join("; ")),
                "end them while measuring (`bpftool link list`, `/sys/kernel/tracing/set_event` and `ps` show whose they are)",
            )
        })
    }
}

/// Limit on descriptors that are looked at, of all processes together: each takes some
/// microseconds, and a user can have millions.
const MAX_DESCRIPTORS: usize = 200_000;

/// A process, as far as it matters here.
#[derive(Debug)]
struct Process {
    pid: u32,
    parent: u32,
    name: String,
    has_perf_events: bool,
    /// The numbers of the BPF programs that it holds, or links to.
    programs: BTreeSet<u32>,
}

impl Process {
    /// Reads it, with as many descriptors as there are `looks`, which become fewer.
    fn read(folder: &Path, looks: &mut usize) -> Option<Self> {
        let pid = folder.file_name()?.to_str()?.parse().ok()?;
        let stat = text(&folder.join("stat"));
        // The name before stands in brackets, and may hold some.
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
        // Not sorted: there can be a million of them.
        let descriptors = fs::read_dir(folder.join("fd")).into_iter().flatten();
        for file in descriptors.filter_map(|entry| Some(entry.ok()?.path())) {
            let Some(left) = looks.checked_sub(1) else {
                break;
            };
            *looks = left;
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
    let mut looks = MAX_DESCRIPTORS;
    let folders = entries(proc);
    folders
        .iter()
        .filter_map(|folder| Process::read(folder, &mut looks))
        .collect()
}

/// A process and all that it started, and these.
fn family(processes: &[Process], first: u32) -> BTreeSet<u32> {
    let mut family = BTreeSet::from([first]);
    // Numbers of processes wrap, so that a child can come before its parent.
    loop {
        let before = family.len();
        let children = processes.iter().filter(|one| family.contains(&one.parent));
        let children: Vec<u32> = children.map(|one| one.pid).collect();
        family.extend(children);
        if family.len() == before {
            return family;
        }
    }
}

/// Events on the way with a BPF program: its number, and both in words.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the kernel's kinds of links"
)]
fn attached() -> Vec<(u32, String)> {
    let names: BTreeMap<u32, String> = ProgInfoIter::default()
        .map(|program| (program.id, program.name.to_string_lossy().into_owned()))
        .collect();
    let mut found = Vec::new();
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
        found.push((link.prog_id, format!("{event} ({program})")));
    }
    found
}

/// The programs that are not of `own`, by who holds them.
fn held(
    programs: &[(u32, String)],
    processes: &[Process],
    own: &BTreeSet<u32>,
) -> BTreeMap<Option<String>, BTreeSet<String>> {
    let mut found = BTreeMap::<_, BTreeSet<String>>::new();
    for (id, words) in programs {
        let mut holders = processes.iter().filter(|one| one.programs.contains(id));
        let holder = holders.next();
        if holder.is_some_and(|one| own.contains(&one.pid))
            || holders.any(|one| own.contains(&one.pid))
        {
            continue;
        }
        let of_holder = found.entry(holder.map(Process::title)).or_default();
        of_holder.insert(words.clone());
    }
    found
}

/// Whether an event, with or without its group, is on the way of an activation.
fn is_on_the_way(event: &str) -> bool {
    let name = event.rsplit([':', '/']).next().unwrap_or(event);
    BEGINNINGS.iter().any(|start| name.starts_with(start))
}

/// Events on the way that are switched on in tracefs or an instance of it, and
/// tracers that watch all the kernel does.
fn traced_events(root: &Path) -> BTreeSet<String> {
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
    // The name of a process need not be UTF-8.
    let text = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// Some names, and how many more there are.
fn named(names: &BTreeSet<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let some: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
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
    fn events_on_the_way_are_known_with_and_without_their_group() {
        for event in ["sched_switch", "sched:sched_waking", "irq/softirq_entry"] {
            assert!(is_on_the_way(event), "{event}");
        }
        for event in ["sys_enter", "block_rq_issue", "kmem:kmalloc"] {
            assert!(!is_on_the_way(event), "{event}");
        }
    }

    #[test]
    fn descriptors_are_looked_at_up_to_a_limit_for_all_processes() {
        let proc = tempfile::tempdir().unwrap();
        let folder = proc.path().join("7");
        fs::create_dir_all(folder.join("fd")).unwrap();
        fs::write(folder.join("comm"), b"\xff\n").unwrap();
        for number in ["3", "4"] {
            std::os::unix::fs::symlink(PERF_EVENT, folder.join("fd").join(number)).unwrap();
        }
        let mut looks = 3;

        let first = Process::read(&folder, &mut looks).unwrap();
        let left = looks;
        looks = 0;
        let second = Process::read(&folder, &mut looks).unwrap();

        assert!(first.has_perf_events && left == 1, "{left}");
        assert!(!second.has_perf_events);
        // A name that is not UTF-8 is a name all the same.
        assert_eq!(first.name, "\u{fffd}");
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

        let expected = [
            "sched:sched_switch",
            "timer:hrtimer_start",
            "tracer function",
        ];
        assert_eq!(found, expected.map(String::from).into());
    }

    /// A process in `proc` with one open file, which is `file`.
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
    fn whoever_holds_perf_events_or_programs_is_known_but_for_our_own_family() {
        let proc = tempfile::tempdir().unwrap();
        let link = |id: u32| format!("pos:\t0\nlink_type:\traw_tracepoint\nprog_id:\t{id}\n");
        for (pids, name, file) in [
            ((40, 1), "laggard", ("anon_inode:bpf_link", link(7))),
            // A child's child, with a number below its parent's.
            ((39, 41), "work) S 1", ("anon_inode:bpf-prog", link(8))),
            ((41, 40), "load", (PERF_EVENT, String::new())),
            ((50, 1), "perf", (PERF_EVENT, String::new())),
            ((51, 1), "laggard", ("anon_inode:bpf_link", link(9))),
            ((52, 1), "shell", ("/dev/null", link(10))),
        ] {
            process(proc.path(), pids, name, (file.0, &file.1));
        }
        fs::create_dir(proc.path().join("self")).unwrap();

        let all = processes(proc.path());
        let own = family(&all, 40);

        assert_eq!(own, [39, 40, 41].into());
        let strangers = all.iter().filter(|one| !own.contains(&one.pid));
        let perf: Vec<String> = strangers
            .filter(|one| one.has_perf_events)
            .map(Process::title)
            .collect();
        assert_eq!(perf, ["perf (process 50)"]);
        let attached: Vec<(u32, String)> = (7..=10).map(|id| (id, format!("e{id}"))).collect();
        let set = |words: &str| BTreeSet::from([words.to_owned()]);
        let expected = [
            (None, set("e10")),
            (Some("laggard (process 51)".into()), set("e9")),
        ];
        assert_eq!(held(&attached, &all, &own), expected.into());
    }

    #[test]
    fn who_came_later_is_told_and_who_was_there_before_is_not_told_again() {
        let set = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        let of = |programs: &[&str], perf: &[&str]| Tracers {
            programs: [(Some("laggard (process 51)".into()), set(programs))].into(),
            events: BTreeSet::new(),
            perf: set(perf),
        };
        let before = of(&["sched_switch (a)"], &["perf (process 50)"]);
        let after = of(
            &["sched_switch (a)", "sched_waking (b)"],
            &["perf (process 50)"],
        );

        assert_eq!(before.caveat_of_later(&before), None);
        let later = before.caveat_of_later(&after).unwrap().what;
        assert_eq!(
            later,
            "other programs began to trace or sample this machine while it was measured, which delays activations: BPF programs of laggard (process 51) on sched_waking (b)"
        );
    }

    #[test]
    fn many_are_counted() {
        let names: BTreeSet<String> = (0..6).map(|n| n.to_string()).collect();

        assert_eq!(named(&names), "0, 1, 2, 3 and 2 more");
        assert_eq!(named(&["0".into(), "1".into()].into()), "0, 1");
    }
}
