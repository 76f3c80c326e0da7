//! Sentences of `laggard study`.

use laggard_answer::study::plan::Gap;
use laggard_answer::study::{
    MissingReason, StudyCell, StudyName, StudyReport, StudyRow, StudySystem, StudyTable,
};
use laggard_model::Nanos;
use laggard_model::name::service_words;
use laggard_model::text::span;

use super::{machine, plural};
use crate::doc::{Cell, code};

/// Note on marked cells.
pub(crate) const MARK: &str =
    "* differs from A: another name or verdict, or at least twice or half the time";

pub(crate) fn title(study: StudyName) -> &'static str {
    match study {
        StudyName::Osdi99 => "Study: latencies of Windows 98 and NT (1999), repeated on Linux",
        StudyName::Hotos99 => "Study: late threads of Windows NT (1999), repeated on Linux",
        StudyName::Heubaum => "Study: latencies of Windows 95 (1995), repeated on Linux",
        StudyName::Timmerman => "Study: Windows NT as a real-time system (1998), repeated on Linux",
    }
}

pub(crate) fn paper(study: StudyName) -> &'static str {
    match study {
        StudyName::Osdi99 => {
            "Cota-Robles and Held, A Comparison of Windows Driver Model Latency Performance, OSDI 1999. Timer interrupt: timer IRQ. DPC: softirq. Kernel threads 28 and 24: SCHED_FIFO 90 and 50. Work item: kworker."
        }
        StudyName::Hotos99 => {
            "Jones and Regehr, The Problems You're Having May Not Be the Problems You Think You're Having, HotOS 1999. Multimedia timers: timers of Linux. DPC: softirq. Video cards and network drivers: the late wakeups of this machine, and two injected faults."
        }
        StudyName::Timmerman => {
            "Timmerman, Can Windows NT 4.0 be used as an RTOS?, 1998. His requirements, context switches (gross) and interrupts of a computing thread, on one CPU."
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
        (StudyName::Osdi99, "table2.paper") => "as printed, the two systems",
        (StudyName::Osdi99, "table3") => "worst latencies of a span of use",
        (StudyName::Osdi99, "kernel_threads") => "4.1: expiry -> kernel thread",
        (StudyName::Osdi99, "figure5") => {
            "Figure 5: a thread with a 16 ms period next to one more program"
        }
        (StudyName::Osdi99, "data_pumps") => "5.1: mean time between misses of a data pump",
        (StudyName::Osdi99, _) => "stack samples of the wakeup with the max latency",
        (StudyName::Hotos99, "table1") => "intervals between callbacks every 1 ms",
        (StudyName::Hotos99, "table2") => "number of these intervals per 100 us",
        (StudyName::Hotos99, "table3") => "a timer on the tick, and its fix",
        (StudyName::Hotos99, "table1.paper") => "as printed, intervals between callbacks",
        (StudyName::Hotos99, "table2.paper") => "as printed, number of intervals per 100 us",
        (StudyName::Hotos99, "table3.paper") => "as printed, a timer and its fix",
        (StudyName::Hotos99, "clocks") => "3.1: stated and observed steps of clocks",
        (StudyName::Hotos99, "handlers") => "4.2 and 4.3: handlers with the longest runs",
        (StudyName::Hotos99, "receive") => "4.3: receiving at full rate",
        (StudyName::Hotos99, _) => "4.4 and 4.5: causes of late threads, and fixes",
        (StudyName::Timmerman, "criteria") => "Requirements on a real-time system",
        (StudyName::Timmerman, "switches") => "Figures 2 and 4: context switches by threads",
        (StudyName::Timmerman, _) => "Figures 5 and 7: interrupts of a computing thread",
        (StudyName::Heubaum, "table1") => "average timer IRQ latency",
        (StudyName::Heubaum, "table2") => "maximum timer IRQ latency",
        (StudyName::Heubaum, "interrupts") => {
            "Separate clock: HPET interrupts of a computing thread, without a load"
        }
        (StudyName::Heubaum, "table3") => "average latency of work in any context",
        (StudyName::Heubaum, "table4") => "average latency of work in the target thread",
        (StudyName::Heubaum, _) => "average latency of work in a boosted thread",
    };
    match name.strip_prefix("table") {
        Some(number) => format!("Table {}: {what}", number.trim_end_matches(".paper")),
        None => what.into(),
    }
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
        (StudyName::Osdi99, "figure5") => {
            let words = match column {
                "later" => "later than 16 ms",
                "once_in" => "once in (waits)",
                other => other,
            };
            (words.into(), false)
        }
        (_, _) => {
            let words = match column {
                "p999" => "p99.9",
                "without_steal" => "without steal",
                other => other,
            };
            (words.into(), false)
        }
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
        (StudyName::Osdi99, "direct_high") => "expiry -> fifo:90, direct",
        (StudyName::Osdi99, "direct_medium") => "expiry -> fifo:50, direct",
        (StudyName::Timmerman | StudyName::Heubaum, "latency") => "ISR latency",
        (StudyName::Timmerman | StudyName::Heubaum, "dispatch") => "ISR dispatch latency",
        (StudyName::Timmerman | StudyName::Heubaum, "thread") => "IRQ thread latency",
        (StudyName::Hotos99, "min") => "minimum",
        (StudyName::Hotos99, "max") => "maximum",
        (StudyName::Hotos99, "mean") => "average",
        (StudyName::Hotos99, "deviation") => "std dev",
        (StudyName::Hotos99, "rate") => "data received",
        (StudyName::Hotos99, "net_rx") => "longest NET_RX",
        (StudyName::Hotos99, "delay_high") => "max latency of SCHED_FIFO 90",
        (StudyName::Hotos99, "delay_other") => "max latency of SCHED_OTHER",
        (_, "irq") => "timer IRQ",
        (StudyName::Heubaum, "irq_unseen") => "no interrupt seen",
        (StudyName::Heubaum, "kworker") => "kworker, via softirq",
        (_, "plain_woken") => "plain thread, sleeping",
        (_, "plain_busy") => "plain thread, computing",
        (StudyName::Heubaum, "bumps") => "distance of its bumps",
        (_, "boosted") => "SCHED_FIFO 50",
        (_, "lent") => "PI futex, FIFO 50",
        (_, "niced") => "nice -20",
        (_, "sliced") => "slice 100 us",
        (_, "cpu") => "processor",
        (_, "cpus") => "CPUs",
        (_, "hz") => "tick",
        (_, "clock") => "clock source",
        (_, "frequency") => "frequency governor",
        (_, "idle_states") => "idle states",
        (_, "file_system") => "file system",
        (StudyName::Osdi99, "softirq_12") => "softirq, 3 x 6 ms",
        (StudyName::Osdi99, "softirq_20") => "softirq, 3 x 10 ms",
        (StudyName::Osdi99, "high_48") => "fifo:90, 4 x 16 ms",
        // The rows of the paper.
        (StudyName::Osdi99, "ADSL") => "ADSL (1999)",
        (StudyName::Osdi99, "Modem") => "Modem (1999)",
        (StudyName::Osdi99, "RT audio") => "RT audio (1999)",
        (StudyName::Osdi99, "RT video") => "RT video (1999)",
        (_, "gpu") => "GPU",
        (_, other) => return numbered(study, other),
    };
    words.into()
}

/// Returns the words for a row with a number: the place in a ranking, a number of threads, or
/// an interval of 100 us.
fn numbered(study: StudyName, row: &str) -> String {
    if study == StudyName::Osdi99 {
        for (end, words) in [
            ("-scanner", "virus scanner"),
            ("-sound", "sounds"),
            ("-kthread-90", "kthread FIFO 90"),
            ("-kthread-50", "kthread FIFO 50"),
        ] {
            if let Some(load) = row.strip_suffix(end) {
                return format!("{load}, {words}");
            }
        }
    }
    if row.starts_with("NET_RX: ") {
        return format!("longest {row}");
    }
    match (study, row.parse::<u64>(), row.split_once('.')) {
        (StudyName::Hotos99, Ok(from), _) => format!("{from}-{} us", from + 100),
        (StudyName::Hotos99, _, None) if row.starts_with(|first: char| first.is_ascii_digit()) => {
            format!("{row} us")
        }
        (StudyName::Timmerman, Ok(threads), _) => plural(threads, "thread"),
        (_, _, Some((name, rank))) => format!("{name} {}", rank.replace('.', " #")),
        _ => row.into(),
    }
}

/// Lists the fixes against the causes of a table, each once with the rows that it is for.
fn fixes(report: &StudyReport, table: &StudyTable) -> Vec<String> {
    let mut fixes: Vec<(String, Vec<String>)> = Vec::new();
    for table_row in &table.rows {
        let cells = table_row.cells.iter().filter_map(|values| values.first());
        for cell in cells {
            let StudyCell::Cause { fix: Some(fix), .. } = cell else {
                continue;
            };
            let (action, row) = (super::cause::action(fix), row(report.study, &table_row.row));
            match fixes.iter_mut().find(|(known, _)| *known == action) {
                Some((_, rows)) => rows.push(row),
                None => fixes.push((action, vec![row])),
            }
        }
    }
    let fixes = fixes.into_iter();
    fixes
        .map(|(action, rows)| format!("Fix for {}: {action}.", rows.join(", ")))
        .collect()
}

/// Returns the names of the spans of Table 3 of OSDI'99. With `--quick` they are shorter, and the
/// paper's names would mislead.
pub(crate) fn spans(report: &StudyReport) -> [String; 3] {
    let names = |system: &StudySystem| match report.study.quick_spans() {
        Some(spans) if system.is_quick => spans.map(span),
        _ => ["hour", "day", "week"].map(Into::into),
    };
    let mut systems = report.systems.iter().map(names);
    let first = systems.next().unwrap_or_default();
    match systems.next() {
        Some(second) if second != first => {
            std::array::from_fn(|place| format!("{}/{}", first[place], second[place]))
        }
        _ => first,
    }
}

/// Warns of spans of the second system that differ from the first.
pub(crate) fn other_spans(report: &StudyReport) -> Option<String> {
    let [first, second] = &report.systems[..] else {
        return None;
    };
    let is_paper = second.directory.is_none();
    if is_paper && report.study != StudyName::Osdi99 {
        return None;
    }
    let other = if is_paper { "the paper" } else { "B" };
    (first.is_quick != second.is_quick).then(|| {
        let [a, b] = [first, second].map(|system| {
            let is_quick = system.is_quick;
            if is_quick {
                "the lengths of --quick"
            } else {
                "the full lengths"
            }
        });
        format!("A has {a}, and {other} has {b}: longer recordings have larger maxima.")
    })
}

/// Warns of steps of which one system has a longer recording than the other.
pub(crate) fn other_lengths(report: &StudyReport) -> Vec<String> {
    let recorded = report
        .systems
        .iter()
        .filter(|system| system.directory.is_some());
    let systems: Vec<&StudySystem> = recorded.collect();
    let [first, second] = systems[..] else {
        return Vec::new();
    };
    let pairs = first.steps.iter().zip(&second.steps);
    let differ = pairs.filter(|(a, b)| {
        let [a, b] = [a, b].map(|step| step.recorded_ns);
        // A step without a recording is listed as not recorded.
        a.min(b) > Nanos::ZERO && a.max(b).ns() - a.min(b).ns() > a.max(b).ns() / 20
    });
    differ
        .map(|(a, b)| {
            format!(
                "{}: {} on A, {} on B; a longer recording has a larger max",
                code(&a.name),
                span(a.recorded_ns),
                span(b.recorded_ns)
            )
        })
        .collect()
}

pub(crate) const fn missing(reason: MissingReason) -> &'static str {
    match reason {
        MissingReason::NotInPaper => "none",
        MissingReason::OnlyInPaper => "paper only",
        MissingReason::NoLoad => "no load",
        MissingReason::Failed => "failed",
        MissingReason::NeedsRoot => "needs root",
        MissingReason::NoPeriod => "no period",
        MissingReason::NoBumps => "no bumps",
        MissingReason::NoService => "no service",
        MissingReason::NoThread => "no thread",
        MissingReason::NoWakeup => "unknown",
        MissingReason::NoTraceData => "no trace data",
        MissingReason::TooFew => "too few",
        MissingReason::NotReported => "not reported",
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
        "Fastest here (in parentheses the highest of the four averages): {}.",
        parts.join("; ")
    ))
}

/// States how often a thread with a period of 16 ms is late on the first system.
fn periods(study: StudyName, row: &StudyRow) -> Option<String> {
    let cells: Vec<&StudyCell> = row.cells.iter().filter_map(|cell| cell.first()).collect();
    let [_, StudyCell::Count { count }, every, ..] = cells[..] else {
        return None;
    };
    let (waits, row) = (Cell::Count(*count), self::row(study, &row.row));
    let time = |ns: f64| span(Nanos::from_ns(laggard_model::whole(ns)));
    if let StudyCell::Time { ns } = every {
        return Some(format!(
            "{row}: later than 16 ms once in {waits} waits, every {} for a thread with a 16 ms period.",
            time(*ns)
        ));
    }
    let StudyCell::AtLeast { ns } = every else {
        return None;
    };
    Some(format!(
        "{row}: never later than 16 ms in {waits} waits, {} of a thread with a 16 ms period.",
        time(*ns)
    ))
}

/// Returns the cells of a row for one system.
fn values(row: &StudyRow, system: usize) -> impl Iterator<Item = &StudyCell> {
    row.cells.iter().filter_map(move |cells| cells.get(system))
}

/// Returns whether the paper or a recording of this system has the row, which is shown then.
pub(crate) fn has_value(row: &StudyRow, system: usize) -> bool {
    // Another system may have fewer causes or samples.
    let is_ranked = system > 0 && row.row.contains('.');
    !values(row, system).all(|cell| {
        let StudyCell::Missing { reason } = cell else {
            return false;
        };
        matches!(
            reason,
            MissingReason::NotInPaper | MissingReason::OnlyInPaper
        ) || is_ranked && *reason == MissingReason::NotReported
    })
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
    if table.name == "data_pumps" {
        notes.push(
            "The paper's rule: (n - 1) t over the share of latencies above (n - 1) t - t / 4."
                .into(),
        );
    }
    if table.name == "figure5" {
        notes.extend(
            table
                .rows
                .iter()
                .filter_map(|row| periods(report.study, row)),
        );
    }
    if has_unseen_interrupts(table) {
        notes.push(
            "no interrupt seen: share of wakeups that the figures above lack, because their timer interrupt was not seen. Most belong to threads that were still late when the next timer was due."
                .into(),
        );
    }
    notes.extend(verdicts(report, table));
    notes.extend(fixes(report, table));
    let mut texts: Vec<&StudyCell> = Vec::new();
    for row in &table.rows {
        let shown = (0..report.systems.len()).filter(|&system| has_value(row, system));
        texts.extend(shown.flat_map(|system| values(row, system)));
    }
    let has = |wanted: fn(&StudyCell) -> bool| texts.iter().any(|cell| wanted(cell));
    if has(|cell| matches!(cell, StudyCell::AtLeast { .. })) {
        notes.push(
            ">= lower limit: the recording is too short for the figure, or a wakeup was still waiting."
                .into(),
        );
    }
    if has(|cell| matches!(cell, StudyCell::Between { .. })) {
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
            MissingReason::Failed,
            "failed: the recording failed; see below.",
        ),
        (
            MissingReason::NoPeriod,
            "no period: chance explains the times between the late wakeups.",
        ),
        (
            MissingReason::NoBumps,
            "no bumps: the latency does not have three evenly spaced bumps (Figure 4).",
        ),
        (
            MissingReason::NoService,
            "no service: the service or the timer was not available; `laggard doctor` names the reason.",
        ),
        (
            MissingReason::NoThread,
            "no thread: the handler of the HPET runs in the interrupt (PREEMPT_RT and `threadirqs` run it in a thread), or there is no HPET.",
        ),
        (
            MissingReason::NoWakeup,
            "unknown: the service was recorded, but all its wakeups were lost, or lack the stages of this row.",
        ),
        (
            MissingReason::NotInPaper,
            "none: the paper does not give this value.",
        ),
        (
            MissingReason::OnlyInPaper,
            "paper only: this study does not measure it.",
        ),
        (
            MissingReason::TooFew,
            "too few: p99.9 needs at least 1,000 values.",
        ),
        (
            MissingReason::NotReported,
            "not reported: the system or the test does not report it, or the study has other loads.",
        ),
        (
            MissingReason::NoTraceData,
            "no trace data: no late wakeup has it, or the recording was made without root.",
        ),
    ] {
        let is_known = texts
            .iter()
            .any(|cell| matches!(cell, StudyCell::Missing { reason: other } if *other == reason));
        if is_known {
            notes.push(note.into());
        }
    }
    notes
}

/// States why criteria failed or are unknown.
fn verdicts(report: &StudyReport, table: &StudyTable) -> Vec<String> {
    let mut notes = Vec::new();
    for table_row in &table.rows {
        let cells = table_row.cells.iter();
        for (system, cell) in cells.flat_map(|values| values.iter().enumerate()) {
            let StudyCell::Verdict {
                verdict,
                reason: Some(reason),
            } = cell
            else {
                continue;
            };
            let Some(reason) = super::rtos::reason(&table_row.row, reason) else {
                continue;
            };
            let verdict = super::check::verdict(*verdict);
            let of_system = match (report.systems.len(), system) {
                (1, _) => "",
                (_, 0) => " on A",
                _ => " on B",
            };
            notes.push(format!("{} {verdict}{of_system}: {reason}.", table_row.row));
        }
    }
    notes
}

/// Returns whether the figures of a table lack wakeups whose interrupt was not seen.
fn has_unseen_interrupts(table: &StudyTable) -> bool {
    let rows = table.rows.iter().filter(|row| row.row == "irq_unseen");
    let mut cells = rows.flat_map(|row| &row.cells).flatten();
    cells.any(|cell| matches!(cell, StudyCell::Share { share } if *share > 0.0))
}

pub(crate) const fn gap(gap: Gap) -> &'static str {
    match gap {
        Gap::Loads => "the paper's loads, which `--loads` replaces",
        Gap::KernelThreads => {
            "kernel threads at two priorities, which need the timerlat tracer: user threads with SCHED_FIFO 90 and 50 stand for them"
        }
        Gap::NetworkCards => {
            "receiving through a network card: the load `net` uses the loopback device; `--receive-from HOST` receives from `iperf3 -s` on another machine"
        }
        Gap::BusStalls => {
            "bus stalls by video cards: no load makes a device stall the bus; a stall that happens has the cause `stall of all CPUs`"
        }
        Gap::ExternalClock => {
            "hardware timer with a separate clock: the CPU's own timer and clock stand for it"
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
    let mut warnings: Vec<String> = other_spans(report).into_iter().collect();
    warnings.extend(other_lengths(report));
    for (place, system) in report.systems.iter().enumerate() {
        let place = if place > 0 { " on B" } else { "" };
        for step in &system.steps {
            let name = code(&step.name) + place;
            if step.is_trusted == Some(false) {
                warnings.push(format!(
                    "{name}: not trustworthy; `laggard show` names the reason"
                ));
            }
            if step.lost > 0 {
                let lost = plural(step.lost, "sample");
                warnings.push(format!("{name}: {lost} lost, which may have been late"));
            }
        }
    }
    warnings
}

/// Returns the words for a service, which the name of a load may follow.
fn series_words(series: &str) -> String {
    let (service, load) = series.split_at(series.find(", ").unwrap_or(series.len()));
    let words = service.parse().map(service_words);
    words.unwrap_or_else(|_| service.into()) + load
}

/// Returns the caption of a figure, whose name may end with the letter of its system.
pub(crate) fn figure(study: StudyName, name: &str) -> String {
    let (name, system) = match name.rsplit_once('.') {
        Some((name, letter @ ("A" | "B"))) => (name, format!(", on {letter}")),
        _ => (name, String::new()),
    };
    let series = series_words(name.split('.').nth(1).unwrap_or_default());
    let words = match (study, name.split('.').next().unwrap_or_default()) {
        (StudyName::Osdi99, "figure4") => {
            format!("Figure 4: % of wakeups later than x, {series}, one curve per load")
        }
        (StudyName::Osdi99, "figure5") => {
            format!("Figure 5: % of wakeups later than x, {series}, next to one more program")
        }
        (StudyName::Osdi99, figure @ ("figure6" | "figure7")) => {
            let number = figure.trim_start_matches("figure");
            format!("Figure {number}: mean time between xruns over (n - 1) t, {series}")
        }
        (StudyName::Heubaum, "figure2") => "Figure 2: timer IRQ latency".into(),
        (StudyName::Heubaum, "figure3") => "Figure 3: work in any context (softirq)".into(),
        (StudyName::Heubaum, "figure4") => "Figure 4: work in a plain thread that computes".into(),
        (StudyName::Heubaum, "figure5") => "Figure 5: work in a boosted thread".into(),
        (StudyName::Hotos99, _) => {
            format!("% of wakeups later than x, {series}, one curve per recording")
        }
        (StudyName::Timmerman, "figure2") => "Figure 2: consecutive context switches".into(),
        (StudyName::Timmerman, "figure3") => "Figure 3: thread switch latency, compared".into(),
        (StudyName::Timmerman, "figure4") => "Figure 4: context switches by threads".into(),
        (StudyName::Timmerman, "figure5") => "Figure 5: ISR latency".into(),
        (StudyName::Timmerman, "figure6") => "Figure 6: ISR latency, compared".into(),
        (StudyName::Timmerman, "figure7") => "Figure 7: ISR dispatch latency".into(),
        (StudyName::Timmerman, "figure8") => "Figure 8: ISR dispatch latency, compared".into(),
        (_, other) => other.into(),
    };
    words + &system
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caption_has_the_words_of_the_figure_for_a_service() {
        for (name, end) in [
            (
                "figure4.fifo:90.A",
                "SCHED_FIFO 90, one curve per load, on A",
            ),
            ("figure6.softirq, game", "softirq, game"),
        ] {
            let caption = figure(StudyName::Osdi99, name);

            assert!(caption.ends_with(end), "{caption}");
        }
    }
}
