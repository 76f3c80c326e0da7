//! Conditions that differ between two sets of recordings (OSDI'99 Table 2).

#![allow(
    clippy::disallowed_macros,
    reason = "values of conditions are texts, as the machine reports most of them"
)]

use std::collections::{BTreeMap, BTreeSet};

use laggard_model::text::count;
use laggard_model::{Cpu, CpuList, Host, Idle, Keep, LoadLabel, Manifest, Nanos, Settings};

use super::Difference;
use super::refusal::yes;

/// Value of a condition that the machine does not report.
const UNKNOWN: &str = "unknown";

/// Returns the conditions that differ between the sides, or between recordings of one side.
pub(super) fn differing(sides: [&[&Manifest]; 2]) -> Vec<Difference> {
    let mut rows = Vec::new();
    for (what, row) in ROWS {
        let [first, second] = sides.map(|side| side.iter().map(|manifest| row(manifest)).collect());
        push(&mut rows, what, &first, &second);
    }
    for (what, row) in LISTS {
        let lists = sides.map(|side| {
            side.iter()
                .map(|manifest| row(manifest))
                .collect::<Vec<_>>()
        });
        // A long list is reduced to the items that some recordings do not have.
        let mut items = lists.iter().flatten();
        let mut common: BTreeSet<String> = items.next().cloned().unwrap_or_default();
        items.for_each(|list| common.retain(|item| list.contains(item)));
        let [first, second] = lists.map(|side| {
            let rest = side.iter().map(|list| match list.difference(&common) {
                rest if rest.clone().next().is_none() => "-".to_owned(),
                rest => rest.map(String::as_str).collect::<Vec<_>>().join(" "),
            });
            rest.collect::<BTreeSet<String>>()
        });
        push(&mut rows, what, &first, &second);
    }
    rows
}

/// Conditions that are not settings of the machine.
const NO_SETTINGS: [&str; 3] = ["load", "machine", "samples kept"];

/// Returns the settings of the machine that affect latency, by name. Each word of a list is a
/// setting with the value `yes`.
pub(crate) fn settings(manifest: &Manifest) -> BTreeMap<String, String> {
    let rows = ROWS.iter().filter(|(what, _)| !NO_SETTINGS.contains(what));
    let single = rows.map(|(what, row)| ((*what).to_owned(), row(manifest)));
    let words = LISTS.iter().flat_map(|(what, row)| {
        let words = row(manifest).into_iter();
        words.map(move |word| (format!("{what}: {word}"), "yes".to_owned()))
    });
    single.chain(words).collect()
}

/// Returns the difference in trace data, per recording of each side.
pub(super) fn trace_data(watched: &[Vec<bool>; 2]) -> Option<Difference> {
    let words = |side: &Vec<bool>| side.iter().map(|&is_so| yes(is_so).into()).collect();
    let [first, second] = watched.each_ref().map(words);
    let mut rows = Vec::new();
    push(&mut rows, "trace data", &first, &second);
    rows.pop()
}

fn push(
    rows: &mut Vec<Difference>,
    what: &str,
    first: &BTreeSet<String>,
    second: &BTreeSet<String>,
) {
    if first != second || first.len() > 1 {
        rows.push(Difference {
            what: what.into(),
            first: first.iter().cloned().collect(),
            second: second.iter().cloned().collect(),
        });
    }
}

type Row = (&'static str, fn(&Manifest) -> String);
type List = (&'static str, fn(&Manifest) -> BTreeSet<String>);

const ROWS: [Row; 37] = [
    ("load", |manifest| {
        LoadLabel::of(manifest.load.as_ref()).to_string()
    }),
    ("machine", |manifest| text(&manifest.host.node)),
    ("kernel", |manifest| text(&manifest.host.kernel)),
    ("kernel build", |manifest| text(&manifest.host.build)),
    ("distribution", |manifest| {
        text_or_unknown(manifest.host.distribution.clone())
    }),
    ("architecture", |manifest| text(&manifest.host.architecture)),
    ("preemption", |manifest| {
        text_or_unknown(manifest.host.preemption.clone())
    }),
    ("ticks per second", |manifest| {
        text_or_unknown(manifest.host.hz)
    }),
    ("processor", |manifest| text(&manifest.host.processor.model)),
    ("microcode", |manifest| {
        text_or_unknown(manifest.host.processor.microcode.clone())
    }),
    ("logical CPUs", |manifest| {
        manifest.host.processor.threads.to_string()
    }),
    ("memory", |manifest| bytes(manifest.host.memory_bytes)),
    ("hypervisor", |manifest| {
        text_or_unknown(manifest.host.hypervisor.clone())
    }),
    ("frequency governor", governor),
    ("turbo", |manifest| {
        text_or_unknown(manifest.host.turbo.map(yes))
    }),
    ("idle states", idle),
    ("idle driver", |manifest| {
        text_or_unknown(manifest.host.idle_driver.clone())
    }),
    ("isolated CPUs", |manifest| {
        list(&manifest.host.isolation.isolated)
    }),
    ("nohz_full", |manifest| {
        list(&manifest.host.isolation.nohz_full)
    }),
    ("offline CPUs", |manifest| {
        list(&manifest.host.isolation.offline)
    }),
    ("real-time throttling", throttling),
    ("fair server", fair_server),
    ("huge pages", |manifest| {
        text_or_unknown(manifest.host.huge_pages.clone())
    }),
    ("clock source", |manifest| {
        text(&manifest.host.clocksource.current)
    }),
    ("lockdown", |manifest| {
        text_or_unknown(manifest.host.lockdown.clone())
    }),
    ("swap", |manifest| {
        text_or_unknown(manifest.host.settings.swap_bytes.map(bytes))
    }),
    ("NUMA balancing", |manifest| {
        setting(manifest, |settings| settings.numa_balancing)
    }),
    ("watchdog", |manifest| {
        setting(manifest, |settings| settings.watchdog)
    }),
    ("NMI watchdog", |manifest| {
        setting(manifest, |settings| settings.nmi_watchdog)
    }),
    ("timer migration", |manifest| {
        setting(manifest, |settings| settings.timer_migration)
    }),
    ("autogroup", |manifest| {
        setting(manifest, |settings| settings.autogroup)
    }),
    ("irqbalance", |manifest| {
        yes(manifest.host.settings.irqbalance).into()
    }),
    ("CPUs measured", cpus),
    ("CPUs kept awake", |manifest| {
        yes(manifest.plan.held_awake).into()
    }),
    ("timer", |manifest| match manifest.plan.timer {
        Some(timer) => timer.to_string(),
        None => "default".into(),
    }),
    ("samples kept", |manifest| keep(manifest.plan.keep).into()),
    ("laggard", |manifest| manifest.version.clone()),
];

const LISTS: [List; 3] = [
    ("command line", |manifest| {
        words(&manifest.host.command_line)
    }),
    ("kernel options", |manifest| set(&manifest.host.config)),
    ("mitigations", |manifest| set(&manifest.host.mitigations)),
];

fn text(text: &str) -> String {
    if text.is_empty() {
        UNKNOWN.into()
    } else {
        text.into()
    }
}

fn text_or_unknown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| UNKNOWN.into(), |value| value.to_string())
}

fn setting(manifest: &Manifest, setting_of: impl Fn(&Settings) -> Option<bool>) -> String {
    text_or_unknown(setting_of(&manifest.host.settings).map(yes))
}

fn bytes(bytes: u64) -> String {
    format!("{} MiB", count(bytes >> 20))
}

fn list(cpus: &CpuList) -> String {
    match cpus.to_string() {
        none if none.is_empty() => "none".into(),
        some => some,
    }
}

fn governor(manifest: &Manifest) -> String {
    let frequencies = manifest.host.frequency.iter();
    let names: BTreeSet<&str> = frequencies
        .map(|frequency| frequency.governor.as_str())
        .collect();
    if names.is_empty() {
        "none".into()
    } else {
        Vec::from_iter(names).join(" and ")
    }
}

fn idle(manifest: &Manifest) -> String {
    let Host { idle, .. } = &manifest.host;
    let used = idle.iter().filter(|state| !state.disabled);
    let names: Vec<&str> = used.map(|Idle { name, .. }| name.as_str()).collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(" ")
    }
}

fn throttling(manifest: &Manifest) -> String {
    let time = |time: Nanos| time.to_string();
    let words = manifest
        .host
        .throttling
        .map(|throttling| match throttling.runtime_ns {
            Some(runtime) => format!("{} of {}", time(runtime), time(throttling.period_ns)),
            None => "off".into(),
        });
    text_or_unknown(words)
}

fn fair_server(manifest: &Manifest) -> String {
    let server = manifest
        .host
        .throttling
        .and_then(|throttling| throttling.fair_server);
    let words = server.map(|fair_server| match fair_server.runtime_ns {
        Nanos::ZERO => "off".into(),
        runtime => format!("{runtime} of {}", fair_server.period_ns),
    });
    text_or_unknown(words)
}

fn cpus(manifest: &Manifest) -> String {
    let cpus: BTreeSet<Cpu> = manifest.lines.iter().map(|line| line.cpu).collect();
    list(&cpus.into_iter().collect())
}

const fn keep(keep: Keep) -> &'static str {
    match keep {
        Keep::All => "all",
        Keep::Tail => "the tail",
    }
}

fn words(line: &str) -> BTreeSet<String> {
    let words = line.split_whitespace();
    words.map(str::to_owned).collect()
}

fn set(items: &[String]) -> BTreeSet<String> {
    items.iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_model::{Backend, Clock, ProbePlan, TimerApi};

    fn manifest(kernel: &str, command_line: &str) -> Manifest {
        let clock = Clock::monotonic(Nanos::ZERO, "2026-11-20T11:00:00.000+01:00");
        let mut manifest = Manifest::new(Backend::Bpf, ProbePlan::default(), clock, Vec::new());
        manifest.host.kernel = kernel.into();
        manifest.host.command_line = command_line.into();
        manifest
    }

    #[test]
    fn only_different_rows_and_words_of_the_command_line_are_listed() {
        let first = manifest("6.12.9", "quiet root=/dev/vda nohz=off");
        let second = manifest("6.12.9-rt", "quiet root=/dev/vda isolcpus=1");

        let rows = differing([&[&first, &first], &[&second, &second]]);

        let rows: Vec<(&str, &str, &str)> = rows
            .iter()
            .map(|row| (&*row.what, &*row.first[0], &*row.second[0]))
            .collect();
        assert_eq!(
            rows,
            [
                ("kernel", "6.12.9", "6.12.9-rt"),
                ("command line", "nohz=off", "isolcpus=1"),
            ]
        );
    }

    #[test]
    fn timer_that_is_not_the_default_is_a_difference() {
        let (first, mut second) = (manifest("26100", ""), manifest("26100", ""));
        second.plan.timer = Some(TimerApi::TimeSetEvent);

        let rows = differing([&[&first], &[&second]]);

        assert_eq!(rows.len(), 1);
        let row = (&*rows[0].what, &*rows[0].first[0], &*rows[0].second[0]);
        assert_eq!(row, ("timer", "default", "timeSetEvent"));
        assert_eq!(first.plan.rhythm(), "period 1ms (dithered)");
        assert_eq!(
            second.plan.rhythm(),
            "period 1ms (dithered, by timeSetEvent)"
        );
    }

    #[test]
    fn trace_data_on_one_side_are_a_difference() {
        let rows = |watched: [&[bool]; 2]| trace_data(&watched.map(<[bool]>::to_vec));

        let table = rows([&[true, true], &[false, false]]).unwrap();
        let some = rows([&[true, false], &[true, true]]).unwrap();

        assert_eq!(
            (&*table.what, &*table.first[0], &*table.second[0]),
            ("trace data", "yes", "no")
        );
        assert_eq!(some.first, ["no", "yes"]);
        assert_eq!(some.second, ["yes"]);
        assert_eq!(rows([&[true], &[true]]), None);
        assert_eq!(rows([&[false], &[false]]), None);
    }

    #[test]
    fn change_within_a_side_is_a_difference() {
        let (first, mut second) = (manifest("6.12.9", "quiet"), manifest("6.12.9", "quiet"));
        second.host.settings.timer_migration = Some(true);

        let rows = differing([&[&first, &second], &[&first, &second]]);

        assert_eq!(rows.len(), 1);
        assert_eq!(
            (&*rows[0].what, rows[0].first.join(" ")),
            ("timer migration", "unknown yes".into())
        );
    }
}
