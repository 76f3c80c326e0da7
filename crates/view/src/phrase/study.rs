//! Sentences of `laggard study`.

use laggard_answer::study::plan::Gap;
use laggard_answer::study::{MissingReason, StudyName, StudyReport, StudySystem, StudyTable};
use laggard_model::text::span;

use super::{machine, plural};
use crate::doc::code;

/// Note on marked cells.
pub(crate) const MARK: &str = "* differs from A: another name, or at least twice or half the time";

pub(crate) fn title(study: StudyName) -> &'static str {
    match study {
        StudyName::Osdi99 => "Study: latencies of Windows 98 and NT (1999), repeated on Linux",
        StudyName::Heubaum => "Study: latencies of Windows 95 (1995), repeated on Linux",
    }
}

pub(crate) fn paper(study: StudyName) -> &'static str {
    match study {
        StudyName::Osdi99 => {
            "Cota-Robles and Held, A Comparison of Windows Driver Model Latency Performance, OSDI 1999. Timer interrupt: timer IRQ. DPC: softirq. Kernel threads 28 and 24: SCHED_FIFO 90 and 50. Work item: kworker."
        }
        StudyName::Heubaum => {
            "Heubaum, Windows 95 Interrupt Latency, Vireo Software 1995. Global event: softirq. VM event: plain thread. Priority VM event: boosted thread. Window drawing, DOSFP, DOSIO: loads draw, fp and fileio."
        }
    }
}

pub(crate) fn system(system: &StudySystem, letter: &str) -> String {
    let Some(directory) = &system.directory else {
        return "paper: printed results, hardware of 1995 to 1999".into();
    };
    let recorded = system.steps.iter().map(|step| step.recorded_ns.ns()).sum();
    let recorded = laggard_model::Nanos::from_ns(recorded);
    let machine = system.host.as_ref().map(machine).unwrap_or_default();
    let what = match (recorded.ns(), machine.as_str()) {
        (0, _) => "nothing recorded yet".to_owned(),
        (_, "") => format!("{} recorded", span(recorded)),
        (_, machine) => format!("{} recorded, {machine}", span(recorded)),
    };
    let name = code(directory);
    if letter.is_empty() {
        format!("{name}: {what}")
    } else {
        format!("{letter}: {name}, {what}")
    }
}

pub(crate) fn table(study: StudyName, name: &str) -> String {
    let what = match (study, name) {
        (StudyName::Osdi99, "table1") => "latency tolerance of applications, (n - 1) t",
        (StudyName::Osdi99, "table2") => "the system",
        (StudyName::Osdi99, "table3") => "worst latencies of a span of use",
        (StudyName::Osdi99, _) => "stack samples of the wakeup with the max latency",
        (StudyName::Heubaum, "table1") => "average timer IRQ latency",
        (StudyName::Heubaum, "table2") => "maximum timer IRQ latency",
        (StudyName::Heubaum, "table3") => "average latency of work in any context",
        (StudyName::Heubaum, "table4") => "average latency of work in the target thread",
        (StudyName::Heubaum, _) => "average latency of work in a boosted thread",
    };
    let number = name.trim_start_matches("table");
    format!("Table {number}: {what}")
}

/// Returns the name of a column, and whether a wide table is best split before it.
pub(crate) fn column(
    study: StudyName,
    table: &str,
    column: &str,
    spans: &[String; 3],
) -> (String, bool) {
    match (study, table) {
        (StudyName::Osdi99, "table3") => match column.split_once('.') {
            Some((load, "hour")) => (format!("{load}: {}", spans[0]), true),
            Some((_, "day")) => (spans[1].clone(), false),
            Some((_, _)) => (spans[2].clone(), false),
            None => (column.into(), false),
        },
        (StudyName::Osdi99, "table1") => {
            let words = match column {
                "buffer" => "buffer (t)",
                "buffers" => "buffers (n)",
                other => other,
            };
            (words.into(), false)
        }
        (StudyName::Osdi99, "table2") => ("this system".into(), false),
        (StudyName::Osdi99 | StudyName::Heubaum, _) => (column.into(), false),
    }
}

pub(crate) fn row(study: StudyName, row: &str) -> String {
    let words = match (study, row) {
        (_, "expiry_irq") => "expiry -> irq",
        (_, "irq_softirq") => "+ irq -> softirq",
        (_, "expiry_softirq") => "expiry -> softirq",
        (_, "softirq_high") => "+ softirq -> fifo:90",
        (_, "expiry_high") => "expiry -> fifo:90",
        (_, "softirq_medium") => "+ softirq -> fifo:50",
        (_, "expiry_medium") => "expiry -> fifo:50",
        (_, "softirq_kworker") => "+ softirq -> kworker",
        (_, "expiry_kworker") => "expiry -> kworker",
        (_, "irq") => "timer IRQ",
        (_, "plain_woken") => "plain thread, sleeping",
        (_, "plain_busy") => "plain thread, computing",
        (_, "boosted") => "SCHED_FIFO 50",
        (_, "lent") => "PI futex, FIFO 50",
        (_, "niced") => "nice -20",
        (_, "sliced") => "slice 100 us",
        (_, "cpu") => "processor",
        (_, "cpus") => "CPUs",
        (_, "hz") => "tick",
        (_, "clock") => "clock source",
        (_, "frequency") => "frequency governor",
        (_, "idle") => "idle states",
        (_, "file_system") => "file system",
        (_, "disk_scheduler") => "disk scheduler",
        (_, "gpu") => "GPU",
        (_, other) => other,
    };
    words.into()
}

pub(crate) const fn missing(reason: MissingReason) -> &'static str {
    match reason {
        MissingReason::NotInPaper => "none",
        MissingReason::OnlyInPaper => "paper only",
        MissingReason::NoLoad => "no load",
        MissingReason::NoService => "no service",
        MissingReason::NoTraceData => "no samples",
        MissingReason::NotReported => "not reported",
        MissingReason::NotApplicable => "n/a",
    }
}

/// Recommends a mechanism (Heubaum's conclusion), from the highest average latency of each.
pub(crate) fn advice(report: &StudyReport) -> Option<String> {
    let mechanism = |rows: &[&str]| {
        let mut mechanisms = report.mechanisms.iter();
        mechanisms.find(|mechanism| rows.contains(&mechanism.row.as_str()))
    };
    let describe = |mechanism: &laggard_answer::study::Mechanism| {
        let time = laggard_model::text::rough_time(mechanism.worst_mean_ns, 2);
        format!("{} ({time})", row(report.study, &mechanism.row))
    };
    let mut parts = Vec::new();
    if let Some(any) = mechanism(&["softirq", "kworker"]) {
        parts.push(format!("for work in any context {}", describe(any)));
    }
    if let Some(boosted) = mechanism(&["boosted", "lent", "niced", "sliced"]) {
        parts.push(format!("for work in one thread {}", describe(boosted)));
    }
    if let Some(plain) = mechanism(&["sliced", "plain_woken"]) {
        parts.push(format!("without rights {}", describe(plain)));
    }
    if parts.is_empty() {
        return None;
    }
    Some(format!(
        "Fastest here, with the highest average of all columns: {}.",
        parts.join("; ")
    ))
}

/// Explains the cells of a table that do not contain a plain value.
pub(crate) fn notes(report: &StudyReport, table: &StudyTable) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if (report.study, table.name.as_str()) == (StudyName::Osdi99, "table3") {
        notes.push("Each value: median of the maxima of all spans of this length.".into());
        notes.push(
            "+ is the part between the two, measured wakeup by wakeup; the worst parts need not be in one wakeup.".into(),
        );
        if report.systems.iter().any(|system| system.is_quick) {
            notes.push("The spans of --quick stand for no hour, day or week of use.".into());
        }
    }
    let texts: Vec<&laggard_answer::study::StudyCell> = table
        .rows
        .iter()
        .flat_map(|row| row.cells.iter().flatten())
        .collect();
    use laggard_answer::study::StudyCell as Cell;
    let has = |wanted: fn(&Cell) -> bool| texts.iter().any(|cell| wanted(cell));
    if has(|cell| matches!(cell, Cell::AtLeast { .. })) {
        notes.push(
            ">= the maximum so far: less than a span was recorded, or a wakeup was still waiting."
                .into(),
        );
    }
    if has(|cell| matches!(cell, Cell::Between { .. })) {
        notes.push(
            "<= upper limit: a stage was not seen in some wakeups, whose whole latency counts."
                .into(),
        );
    }
    for (reason, note) in [
        (
            MissingReason::NoLoad,
            "no load: this machine cannot run it; see below.",
        ),
        (
            MissingReason::NoService,
            "no service: the recording does not have it; `laggard doctor` names the reason.",
        ),
        (
            MissingReason::NotApplicable,
            "n/a: a thread that computes is measured only in the column `busy`, next to 4 busy threads.",
        ),
        (
            MissingReason::NotInPaper,
            "none: the paper has no such value.",
        ),
        (
            MissingReason::NoTraceData,
            "no samples: no late wakeup has stack samples.",
        ),
    ] {
        let found = texts
            .iter()
            .any(|cell| matches!(cell, Cell::Missing { reason: other } if *other == reason));
        if found {
            notes.push(note.into());
        }
    }
    notes
}

pub(crate) const fn gap(gap: Gap) -> &'static str {
    match gap {
        Gap::Scanner => {
            "Figure 5 (a virus scanner on and off): laggard has no load that reads every opened file"
        }
        Gap::KernelThreads => {
            "kernel threads at two priorities: user threads with SCHED_FIFO 90 and 50 stand for them"
        }
        Gap::Sound => {
            "sound schemes: no load plays to a sound device; `web` decodes audio without one"
        }
        Gap::ExternalClock => {
            "timer board with a separate clock: the CPU's own timer and clock stand for it"
        }
    }
}

/// Lists the steps that a system lacks, with the reason.
pub(crate) fn unrecorded(system: &StudySystem) -> Vec<String> {
    let of_load = system.missing.iter().map(|missing| {
        let absence = &missing.absence;
        format!(
            "{}: {}; {}",
            code(&missing.step),
            absence.reason,
            absence.remedy
        )
    });
    let is_missing = |name: &str| system.missing.iter().any(|missing| missing.step == name);
    let open = system.steps.iter().filter(|step| {
        !is_missing(&step.name) && step.recorded_ns.ns() + 1_000_000_000 < step.planned_ns.ns()
    });
    let open = open.map(|step| {
        format!(
            "{}: {} of {}; repeat the command to continue",
            code(&step.name),
            span(step.recorded_ns),
            span(step.planned_ns)
        )
    });
    of_load.chain(open).collect()
}

pub(crate) fn warnings(report: &StudyReport) -> Vec<String> {
    let mut warnings = Vec::new();
    for system in &report.systems {
        for step in &system.steps {
            if step.is_trusted == Some(false) {
                warnings.push(format!(
                    "{}: not trustworthy; `laggard show` names the reason",
                    code(&step.name)
                ));
            }
            if step.lost > 0 {
                warnings.push(format!(
                    "{}: {} lost, which may have been late",
                    code(&step.name),
                    plural(step.lost, "sample")
                ));
            }
        }
    }
    warnings
}

pub(crate) fn figure(study: StudyName, name: &str) -> String {
    let series = name.split('.').nth(1).unwrap_or_default();
    match (study, name.split('.').next().unwrap_or_default()) {
        (StudyName::Osdi99, "figure4") => {
            format!("Figure 4: fraction of wakeups later than x, {series}, one curve per load")
        }
        (StudyName::Osdi99, figure @ ("figure6" | "figure7")) => {
            let number = figure.trim_start_matches("figure");
            format!("Figure {number}: mean time between xruns over (n - 1) t, {series}")
        }
        (StudyName::Heubaum, "figure2") => "Figure 2: timer IRQ latency".into(),
        (StudyName::Heubaum, "figure3") => "Figure 3: work in any context (softirq)".into(),
        (StudyName::Heubaum, "figure4") => "Figure 4: work in a plain thread".into(),
        (StudyName::Heubaum, "figure5") => "Figure 5: work in a boosted thread".into(),
        (StudyName::Osdi99 | StudyName::Heubaum, other) => other.into(),
    }
}
