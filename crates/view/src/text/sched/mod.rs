//! `laggard sched` for the terminal: whether the tasks meet their deadlines, by
//! how much, and what the recording does not tell.

mod full;

use laggard_answer::sched::{SchedReport, TaskVerdict, Verdict};
use laggard_model::text::{Unit, mean_time};
use laggard_model::{Nanos, printable, printable_lines};

use super::Look;
use super::grid::Grid;

/// The report as text: a few lines, or everything.
pub fn sched(report: &SchedReport, all: bool, look: Look) -> String {
    let text = if all {
        full::in_full(report, look)
    } else {
        in_short(report, look)
    };
    printable_lines(&text).to_string()
}

fn in_short(report: &SchedReport, look: Look) -> String {
    let mut text = look.filled("", &sentence(report));
    text += &look.warned(&report.notes);
    text.push('\n');
    text += &responses(&report.tasks, look);
    text.push('\n');
    for task in &report.tasks {
        let name = printable(&task.task.name);
        for why in whys(task) {
            text += &look.hanging("  ", "    ", &format!("{name}: {why}"));
        }
    }
    for remark in &report.remarks {
        text += &look.hanging("  ", "    ", &remark.to_string());
    }
    text + &look.filled("  ", &basis(report))
}

/// Whether all meet, and which do not.
fn sentence(report: &SchedReport) -> String {
    let named = |verdict: Verdict| {
        let tasks = report.tasks.iter().filter(|one| one.verdict == verdict);
        let names: Vec<String> = tasks
            .map(|one| printable(&one.task.name).to_string())
            .collect();
        names.join(", ")
    };
    let (misses, unclear) = (named(Verdict::Misses), named(Verdict::Unclear));
    let under = report
        .load
        .load()
        .map_or_else(String::new, |load| format!(" under `{}`", printable(load)));
    let many = report.tasks.len();
    let found = match (misses.is_empty(), unclear.is_empty(), many) {
        (false, true, _) => format!("MISSES: {misses}"),
        (false, false, _) => format!("MISSES: {misses}; not shown to meet: {unclear}"),
        (true, false, _) => format!("NOT SHOWN to meet every deadline: {unclear}"),
        (true, true, 1) => format!("MEETS: {} meets its deadline", named(Verdict::Meets)),
        (true, true, _) => format!("MEETS: all {many} tasks meet their deadlines"),
    };
    format!(
        "{found}{under}, by {} observed",
        mean_time(report.observed_ns)
    )
}

fn responses(tasks: &[TaskVerdict], look: Look) -> String {
    let head = [
        "task",
        "service",
        "deadline",
        "worst response",
        "slack",
        "verdict",
    ];
    let mut rows = Grid::new(head);
    for one in tasks {
        rows.add_row([
            printable(&one.task.name).to_string(),
            one.task.service.to_string(),
            Unit::Auto.write_nanos(one.task.deadline_ns),
            blackouts(one),
            one.slack_ns.map_or_else(|| "-".into(), signed),
            words(one.verdict).into(),
        ]);
    }
    rows.written(look)
}

/// What makes a task late, or why that is not known; nothing of one that meets.
fn whys(task: &TaskVerdict) -> Vec<String> {
    match task.verdict {
        Verdict::Meets => Vec::new(),
        Verdict::Misses => vec![format!("the largest part of it is {}", task.limit)],
        Verdict::Unclear => task.doubts.iter().map(ToString::to_string).collect(),
    }
}

fn basis(report: &SchedReport) -> String {
    let notes = match report.notes.len() {
        0 => String::new(),
        1 => "; 1 caveat".into(),
        more => format!("; {more} caveats"),
    };
    format!(
        "Responses by the blackouts seen, at least and at most: largest seen, not a bound. \
         Permitted: one failure in {}. On one CPU, no migration; this load only{notes}. All: --all",
        mean_time(ns(report.permitted_ns))
    )
}

/// The word for a verdict.
const fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Meets => "meets",
        Verdict::Misses => "MISSES",
        Verdict::Unclear => "unclear",
    }
}

fn time(time: Option<f64>) -> String {
    time.map_or_else(|| "no bound".into(), |ns| Unit::Auto.write(ns))
}

/// The worst response with the blackouts seen.
fn blackouts(one: &TaskVerdict) -> String {
    let least = time(one.least_ns);
    match one.most_ns {
        None if one.verdict == Verdict::Unclear => format!("{least} or more"),
        most => format!("{least} to {}", time(most)),
    }
}

const fn ns(time: Nanos) -> f64 {
    time.ns() as f64
}

fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    format!("{sign}{}", Unit::Auto.write(ns.abs()))
}
