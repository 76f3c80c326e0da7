//! `laggard why --handlers`: interrupt handlers, softirqs, timer functions and work items.

use laggard_answer::why::{HandlerRow, HandlersReport, HandlersVerdict};
use laggard_model::text::span;
use laggard_model::{Nanos, printable};

use crate::doc::{Block, Cell, Column, Document, Reason, Table};

/// Number of handlers that the conclusion names.
const MAX_NAMED: usize = 3;

/// Describes the handlers, `top` of each table.
pub fn handlers(report: &HandlersReport, top: usize) -> Document {
    let mut document = Document::new("Handlers outside threads");
    let s = if report.cpus == 1 { "" } else { "s" };
    document.lines(vec![format!(
        "{}: handlers that the kernel ran outside threads in {}, on {} CPU{s}",
        printable(&report.path),
        span(report.duration_ns),
        Cell::Count(report.cpus)
    )]);
    document.lines(conclusion(report));
    for (what, rows) in [("handler", &report.handlers), ("work item", &report.works)] {
        if !rows.is_empty() {
            document.push(Block::Table(table(what, rows, top)));
        }
    }
    document.lines(limits(report));
    document
}

fn table(what: &str, rows: &[HandlerRow], top: usize) -> Table {
    let is_stretched = rows.iter().take(top).any(HandlerRow::is_stretched);
    let columns = ["runs", "CPU share", "p99.9", "max"].map(Column::number);
    let without_steal = is_stretched.then(|| Column::number("max without steal"));
    let name = [Column::sentence(what)];
    let mut table = Table::new(name.into_iter().chain(columns).chain(without_steal));
    if what == "work item" {
        table = table.caption("Work items, including sleeping and waiting");
    }
    for row in rows.iter().take(top) {
        let without_steal = if row.is_stretched() {
            Cell::AtLeast(Box::new(Cell::Time(row.longest_own_ns)))
        } else {
            Cell::Empty
        };
        let cells = [
            row.who.as_str().into(),
            Cell::Count(row.count),
            Cell::Share(row.share),
            Cell::time_or(row.p999_ns, Reason::TooFewSamples),
            Cell::Time(row.longest_ns),
        ];
        let without_steal = is_stretched.then_some(without_steal);
        table.row(cells.into_iter().chain(without_steal));
    }
    if let Some(next) = rows.get(top) {
        table.note(format!(
            "{} more, none longer than {} (`--all`)",
            Cell::Count((rows.len() - top) as u64),
            Cell::Time(next.longest_ns)
        ));
    }
    table
}

/// States whether a handler alone explains a late wakeup.
fn conclusion(report: &HandlersReport) -> Vec<String> {
    let Some(verdict) = &report.verdict else {
        return Vec::new();
    };
    let late = Cell::Time(report.late_ns.unwrap_or_default());
    match verdict {
        HandlersVerdict::NoThreshold { longest_ns } => vec![none_longer(report, *longest_ns)],
        HandlersVerdict::NoneAlone {
            longest_ns,
            early_ns,
        } => {
            let early = early_ns.map(|early| {
                format!(
                    "Before the threshold was chosen, {} was late too, which a handler may explain.",
                    Cell::Time(early)
                )
            });
            let none = none_longer(report, *longest_ns);
            let alone = format!("No handler alone explains a latency of {late} or more.");
            [none, alone].into_iter().chain(early).collect()
        }
        HandlersVerdict::NoneWithoutSteal => vec![format!(
            "No handler is known to have run for the latency threshold of {late} without steal time."
        )],
        HandlersVerdict::Some {
            handlers,
            others,
            is_certain,
        } => {
            let rows = handlers
                .iter()
                .filter_map(|index| report.handlers.get(*index));
            let mut named: Vec<String> = rows
                .take(MAX_NAMED)
                .map(|row| format!("{} (max {})", row.who, Cell::Time(row.longest_own_ns)))
                .collect();
            if handlers.len() > MAX_NAMED {
                named.push(format!("{} more", handlers.len() - MAX_NAMED));
            }
            let others = match (others, is_certain) {
                (0, _) => None,
                (others, true) => Some(format!("{others} other kinds of handlers did not.")),
                (others, false) => Some(format!(
                    "{others} other kinds of handlers did not, but some runs were not counted."
                )),
            };
            let some = format!(
                "These ran for the latency threshold of {late} or longer: {}.",
                named.join(", ")
            );
            std::iter::once(some).chain(others).collect()
        }
    }
}

fn none_longer(report: &HandlersReport, longest: Nanos) -> String {
    let counted = if report.uncounted_ns == Nanos::ZERO {
        ""
    } else {
        " that was counted"
    };
    format!(
        "No interrupt handler, softirq or timer function{counted} ran for longer than {}.",
        Cell::Time(longest)
    )
}

/// States what the figures include or lack.
fn limits(report: &HandlersReport) -> Vec<String> {
    let mut limits = Vec::new();
    let late = report.late_ns.unwrap_or_default();
    let stretched = report.handlers.iter();
    let stretched = stretched.filter(|row| row.is_stretched() && row.longest_ns >= late);
    if let Some(row) = stretched.max_by_key(|row| row.longest_ns) {
        limits.push(format!(
            "Steal time may have lengthened runs: of the {} of {}, all but {}.",
            Cell::Time(row.longest_ns),
            row.who,
            Cell::Time(row.longest_own_ns)
        ));
    }
    if report.has_probes {
        limits.push(
            "Included are laggard's own timers (hrtimer_wakeup, bpf_timer_cb, perf_swevent_hrtimer) and work items (bpf_wq_work)."
                .into(),
        );
    }
    if report.has_steal {
        limits.push("The times include steal time, which this hypervisor does not report.".into());
    }
    if report.softirqs_are_threads {
        limits.push(
            "Softirqs run in threads here: their times include preemption, and so do the times of timer functions in them."
                .into(),
        );
    }
    if report.uncounted_ns > Nanos::ZERO {
        limits.push(format!(
            "The last {} are not counted: the recording was killed or still runs.",
            span(report.uncounted_ns)
        ));
    }
    if report.missing.runs > 0 {
        let (s, are) = if report.missing.runs == 1 {
            ("", "is")
        } else {
            ("s", "are")
        };
        let length = report.missing.none_longer_ns.map_or_else(
            || "their length is unknown".to_owned(),
            |longest| format!("none was longer than {}", Cell::Time(longest)),
        );
        limits.push(format!(
            "{} run{s} {are} not counted, because start or end was not seen: {length}.",
            Cell::Count(report.missing.runs)
        ));
    }
    limits
}
