//! `laggard rehearse --all`: every figure of the tasks, and of the services
//! meanwhile.

use std::fmt::Write as _;

use laggard_answer::rehearsal::{Effect, RehearsalReport, Summary, TaskRehearsal, mttf};
use laggard_answer::show::at_least;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, count, mean_time, span};
use laggard_model::{Nanos, TaskCount, printable};

use super::super::Look;
use super::super::grid::Grid;
use super::{interval, number, time};

/// The report in full, as text.
pub(super) fn in_full(report: &RehearsalReport, look: Look) -> String {
    let line = |text: &str| look.hanging("", "  ", text);
    let mut text = line(&format!(
        "Rehearsal of {} under {} (recorded in {})",
        printable(&report.file),
        match report.load.load() {
            Some(load) => format!("the load `{}`", printable(load)),
            None => report.load.to_string(),
        },
        printable(&report.recorded_in)
    ));
    text += &look.warned(&report.notes);
    text += "\nCounted\n\n";
    let counts: Vec<TaskCount> = report.tasks.iter().map(|one| one.count.clone()).collect();
    text += &counted(&counts, look);
    text.push('\n');
    text += &line(&format!(
        "Predicted for the same time from {} ({})",
        printable(&report.predicted_from.join(", ")),
        span(report.observed_ns)
    ));
    text.push('\n');
    text += &predicted(&report.tasks, look);
    text += &remarks(&report.tasks, look);
    if !report.others.is_empty() {
        text.push('\n');
        text += &line(
            "Latency of the services before -> with the tasks (a larger sample has a larger largest)",
        );
        text.push('\n');
        text += &effects(&report.others, look);
    }
    text += &look.to_bear_in_mind(&report.notes);
    text.push('\n');
    text + &look.filled("", LEGEND)
}

/// What the figures are.
const LEGEND: &str = "Underruns are runs of late jobs (one of more than 100 counts once per 100); in \
    brackets the 95 % prediction interval, for a count that varies by itself too. The paper's \
    rule: (n - 1) t / P(latency > slack). Worst response: by response-time analysis with the \
    blackouts recorded.";

/// What was counted, in full.
pub(super) fn counted(counts: &[TaskCount], look: Look) -> String {
    let mut rows = Grid::new([
        "task",
        "runs as",
        "CPU",
        "period",
        "work",
        "deadline",
        "jobs",
        "late",
        "underruns",
        "MTTF",
        "median",
        "p99",
        "largest",
    ])
    .parted_before(6);
    for one in counts {
        rows.add_row([
            one.task.name.clone(),
            one.task.service.to_string(),
            one.task.cpu.to_string(),
            time(one.task.period_ns),
            time(one.task.compute_ns),
            time(one.task.deadline_ns),
            count(one.jobs),
            count(one.late),
            count(one.underruns),
            mttf(one).map_or_else(|| "-".into(), mean_time),
            time(one.median_response_ns),
            time(one.p99_response_ns),
            time(one.largest_response_ns),
        ]);
    }
    let works = counts
        .iter()
        .map(|one| look.hanging("  ", "    ", &work(one)));
    rows.written(look) + &works.collect::<String>()
}

/// What the jobs of a task took.
fn work(one: &TaskCount) -> String {
    let mut text = format!(
        "{}: a job's work took {} in the median, {} at least",
        printable(&one.task.name),
        time(one.median_work_ns),
        time(one.least_work_ns)
    );
    // Writing to a string cannot fail, here and below.
    if let Some(cpu) = one.cpu_per_job_ns {
        let _ = write!(text, "; {} of CPU time with its waking", time(cpu));
    }
    if one.skipped > 0 {
        let _ = write!(
            text,
            "; {} jobs were skipped, and are late",
            count(one.skipped)
        );
    }
    text
}

fn predicted(tasks: &[TaskRehearsal], look: Look) -> String {
    let mut rows = Grid::new([
        "task",
        "underruns",
        "counted",
        "",
        "factor",
        "paper's rule",
        "factor",
        "late jobs",
        "counted",
        "",
        "worst response",
        "counted",
    ])
    .parted_before(7)
    .parted_before(10);
    let factor = |factor: Option<f64>| factor.map_or_else(|| "-".into(), |one| format!("{one:.2}"));
    for task in tasks {
        rows.add_row([
            task.count.task.name.clone(),
            interval(&task.predicted_failures),
            number(task.failures),
            task.verdict.words().into(),
            factor(task.factor),
            number(task.paper_failures),
            factor(task.paper_factor),
            interval(&task.predicted_late),
            count(task.count.late),
            task.late_verdict.words().into(),
            response(task),
            time(task.count.largest_response_ns),
        ]);
    }
    rows.written(look)
}

/// The worst response by blackouts never too long, to those never too short.
fn response(task: &TaskRehearsal) -> String {
    let write = |ns: Option<f64>| ns.map_or_else(|| "no bound".into(), |ns| Unit::Auto.write(ns));
    format!(
        "{} to {}",
        write(task.analysis.least_ns),
        write(task.analysis.most_ns)
    )
}

fn remarks(tasks: &[TaskRehearsal], look: Look) -> String {
    let mut text = String::new();
    for task in tasks {
        let name = printable(&task.count.task.name);
        for remark in &task.remarks {
            let remark = format!("{name}: {}", crate::phrase::rehearsal::remark(remark));
            text += &look.hanging("  ", "    ", &remark);
        }
    }
    if text.is_empty() {
        text
    } else {
        format!("\n{text}")
    }
}

fn largest(summary: &Summary) -> String {
    at_least(summary.largest_is_at_least, &time(summary.largest_ns))
}

fn effects(others: &[Effect], look: Look) -> String {
    let mut rows = Grid::new(["service", "samples", "median", "p99", "largest"]);
    let maybe = |p99: Option<Nanos>| p99.map_or_else(|| "-".into(), time);
    for one in others {
        let (before, now) = (&one.before, &one.meanwhile);
        rows.add_row([
            line_name(one.service, one.route),
            format!("{} -> {}", count(before.samples), count(now.samples)),
            format!("{} -> {}", time(before.median_ns), time(now.median_ns)),
            format!("{} -> {}", maybe(before.p99_ns), maybe(now.p99_ns)),
            format!("{} -> {}", largest(before), largest(now)),
        ]);
    }
    rows.written(look)
}
