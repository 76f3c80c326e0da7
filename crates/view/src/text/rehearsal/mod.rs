//! `laggard rehearse` for the terminal: whether the count came out as predicted.

mod full;

use laggard_answer::rehearsal::{Inside, Predicted, RehearsalReport, TaskRehearsal};
use laggard_model::text::{Unit, count, span};
use laggard_model::{Nanos, TaskCount, printable, printable_lines};

use super::Look;
use super::grid::Grid;

/// The report as text: a few lines, or everything.
pub fn rehearsal(report: &RehearsalReport, all: bool, look: Look) -> String {
    let text = if all {
        full::in_full(report, look)
    } else {
        in_short(report, look)
    };
    printable_lines(&text).to_string()
}

/// What was counted, as text: a line for each task, or everything.
pub fn counted(counts: &[TaskCount], all: bool, look: Look) -> String {
    let text = if all {
        full::counted(counts, look)
    } else {
        counted_in_short(counts, look)
    };
    printable_lines(&text).to_string()
}

fn in_short(report: &RehearsalReport, look: Look) -> String {
    let mut text = look.filled("", &sentence(report));
    text += &look.warned(&report.notes);
    text.push('\n');
    text += &compared(&report.tasks, look);
    text.push('\n');
    for task in &report.tasks {
        let name = printable(&task.count.task.name);
        for remark in &task.remarks {
            let remark = crate::phrase::rehearsal::remark(remark);
            text += &look.hanging("  ", "    ", &format!("{name}: {remark}"));
        }
    }
    text + &look.filled("  ", &basis(report))
}

/// Whether the counts lie in their intervals, and whose do not.
fn sentence(report: &RehearsalReport) -> String {
    let outside: Vec<String> = report
        .tasks
        .iter()
        .filter(|one| !one.is_as_predicted())
        .map(|one| {
            format!(
                "{} ({})",
                printable(&one.count.task.name),
                how_outside(one).join(", ")
            )
        })
        .collect();
    let under = report
        .load
        .load()
        .map_or_else(String::new, |load| format!(" under `{}`", printable(load)));
    if outside.is_empty() {
        format!("AS PREDICTED{under}: every count lies in its interval")
    } else {
        format!("NOT AS PREDICTED{under}: {}", outside.join("; "))
    }
}

/// Which counts of a task lie outside, and on which side.
fn how_outside(task: &TaskRehearsal) -> Vec<String> {
    [
        (task.verdict, "underruns"),
        (task.late_verdict, "late jobs"),
    ]
    .into_iter()
    .filter_map(|(verdict, what)| match verdict {
        Inside::Inside => None,
        Inside::Fewer => Some(format!("fewer {what}")),
        Inside::More => Some(format!("more {what}")),
    })
    .collect()
}

fn compared(tasks: &[TaskRehearsal], look: Look) -> String {
    let head = [
        "task",
        "runs as",
        "underruns",
        "predicted",
        "late",
        "predicted",
    ];
    let mut rows = Grid::new(head).parted_before(4);
    for one in tasks {
        rows.add_row([
            one.count.task.name.clone(),
            one.count.task.service.to_string(),
            number(one.failures),
            interval(&one.predicted_failures),
            count(one.count.late),
            interval(&one.predicted_late),
        ]);
    }
    rows.written(look)
}

fn basis(report: &RehearsalReport) -> String {
    let jobs: u64 = report.tasks.iter().map(|one| one.count.jobs).sum();
    let notes = match report.notes.len() {
        0 => String::new(),
        1 => "; 1 caveat".into(),
        more => format!("; {more} caveats"),
    };
    format!(
        "Counted in {} jobs, predicted from {} ({}), in brackets the 95 % interval. An underrun is \
         a run of late jobs. Recorded meanwhile: {}{notes}. All: --all",
        count(jobs),
        span(report.observed_ns),
        printable(&report.predicted_from.join(", ")),
        printable(&report.recorded_in)
    )
}

fn counted_in_short(counts: &[TaskCount], look: Look) -> String {
    let mut rows = Grid::new([
        "task",
        "runs as",
        "jobs",
        "late",
        "underruns",
        "median",
        "p99",
        "largest",
    ])
    .parted_before(5);
    for one in counts {
        rows.add_row([
            one.task.name.clone(),
            one.task.service.to_string(),
            count(one.jobs),
            count(one.late),
            count(one.underruns),
            time(one.median_response_ns),
            time(one.p99_response_ns),
            time(one.largest_response_ns),
        ]);
    }
    rows.written(look)
}

fn time(time: Nanos) -> String {
    Unit::Auto.write_nanos(time)
}

fn interval(predicted: &Predicted) -> String {
    format!(
        "{} [{:.0}, {:.0}]",
        number(predicted.mean),
        predicted.low,
        predicted.high
    )
}

fn number(value: f64) -> String {
    if value == 0.0 {
        "0".into()
    } else if value < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}
