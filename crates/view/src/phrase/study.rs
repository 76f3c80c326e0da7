//! Sentences of `laggard study`.

mod notes;

use laggard_answer::study::plan::Gap;
use laggard_answer::study::{MissingReason, StudyName, StudyReport, StudySystem};
use laggard_model::Nanos;
use laggard_model::name::service_words;
use laggard_model::text::span;

pub(crate) use self::notes::{has_value, notes};
use super::{machine, plural};
use crate::doc::code;

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
