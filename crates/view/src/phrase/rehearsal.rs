//! Sentences of `laggard rehearse`.

use std::fmt::Write as _;

use laggard_answer::rehearsal::{Inside, RehearsalReport, Remark, TaskRehearsal};
use laggard_model::TaskCount;
use laggard_model::text::span;

use super::{code, plural, qos};
use crate::doc::{Cell, quoted};
use crate::text::Tone;

/// Explains the figures.
pub(crate) const LEGEND: &str = "An underrun is a run of late jobs (one of more than 100 counts once per 100). In parentheses: the 95 % prediction interval, for a count that varies by itself too. Rule of the papers: (n - 1) t / P(latency > slack). Worst response: from the response-time analysis with the recorded stalls.";

/// Returns the word for the place of a count.
pub(crate) const fn verdict(inside: Inside) -> &'static str {
    match inside {
        Inside::Inside => "inside",
        Inside::Fewer => "FEWER",
        Inside::More => "MORE",
    }
}

/// Returns whether the place of a count is good news.
pub(crate) const fn tone(inside: Inside) -> Tone {
    match inside {
        Inside::Inside => Tone::Good,
        Inside::Fewer | Inside::More => Tone::Bad,
    }
}

/// Names a task in a sentence.
pub(crate) fn name(task: &TaskRehearsal) -> String {
    code(&task.count.task.name)
}

/// States which counts of a task lie outside their intervals, and on which side.
pub(crate) fn outside(task: &TaskRehearsal) -> String {
    let counts = [
        (task.verdict, "underruns"),
        (task.late_verdict, "late jobs"),
    ];
    let parts = counts
        .into_iter()
        .filter_map(|(inside, noun)| match inside {
            Inside::Inside => None,
            Inside::Fewer => Some(format!("fewer {noun}")),
            Inside::More => Some(format!("more {noun}")),
        });
    let parts: Vec<String> = parts.collect();
    format!("{}: {}", name(task), parts.join(", "))
}

/// States the data behind the counts and the prediction.
pub(crate) fn data(report: &RehearsalReport) -> Vec<String> {
    let jobs = report.tasks.iter().map(|task| task.count.jobs).sum();
    let paths = report.predicted_from.iter().map(|path| code(path));
    let paths: Vec<String> = paths.collect();
    vec![
        format!(
            "Counted: {} jobs of {}{}, recorded in {}",
            Cell::Count(jobs),
            code(&report.file),
            qos::under(&report.load),
            code(&report.recorded_in)
        ),
        format!(
            "Predicted: from {} ({})",
            paths.join(", "),
            span(report.observed_ns)
        ),
    ]
}

/// Counts the warnings about the recordings.
pub(crate) fn warnings(report: &RehearsalReport) -> Option<String> {
    let count = report
        .notes
        .iter()
        .filter(|note| !note.is_warning())
        .count();
    (count > 0).then(|| {
        format!(
            "{} about the recordings: `--all`",
            plural(count as u64, "warning")
        )
    })
}

/// States the next step for the user.
pub(crate) fn next(report: &RehearsalReport) -> String {
    let has_more = report
        .tasks
        .iter()
        .any(|task| [task.verdict, task.late_verdict].contains(&Inside::More));
    if has_more {
        let why = code(&format!("laggard why {}", quoted(&report.recorded_in)));
        format!("Next: {why} shows the causes of late wakeups during the run")
    } else if report.tasks.iter().all(TaskRehearsal::is_as_predicted) {
        "Next: `--all` shows every figure and the effect on the services".into()
    } else {
        "Next: record for longer to predict from (`--record-first`)".into()
    }
}

/// States the time that the jobs of a task took.
pub(crate) fn work(count: &TaskCount) -> String {
    let mut text = format!(
        "{}: the work of a job took {} (median), {} (min)",
        code(&count.task.name),
        Cell::Time(count.median_work_ns),
        Cell::Time(count.least_work_ns)
    );
    // Writing to a string cannot fail, here and below.
    if let Some(cpu) = count.cpu_per_job_ns {
        let _ = write!(text, "; {} of CPU time with its wakeup", Cell::Time(cpu));
    }
    if count.skipped > 0 {
        let _ = write!(
            text,
            "; {} jobs were skipped (counted as late)",
            Cell::Count(count.skipped)
        );
    }
    text
}

/// States why a prediction is coarse, or is not one of the counted quantity.
pub(crate) fn remark(remark: &Remark) -> String {
    match remark {
        Remark::OtherService { by, service } => {
            format!("predicted from `{by}`, because `{service}` was not recorded")
        }
        Remark::Coarse {
            slack_ns,
            resolution,
        } => qos::resolution(resolution, *slack_ns).unwrap_or_default(),
        Remark::Waiting { by, waited_ns } => format!(
            "`{by}` was still waiting when the first recording ended, for {} by then: expect at least the predicted misses",
            Cell::Time(*waited_ns)
        ),
        Remark::SharesCpu => {
            "a SCHED_OTHER thread shares the CPU while it computes, which its wakeup latency does not include: expect more misses than predicted".into()
        }
        Remark::LongWork {
            median_ns,
            requested_ns,
        } => format!(
            "its work took {} (median) instead of {}: a slower or shared processor, or interruptions",
            Cell::Time(*median_ns),
            Cell::Time(*requested_ns)
        ),
        Remark::PageFaults { count } => format!("it had {} page faults", Cell::Count(*count)),
        Remark::Beside { tasks } => {
            let tasks: Vec<String> = tasks.iter().map(|task| code(task)).collect();
            format!(
                "predicted without other tasks, but {} on the same CPU can delay it; the response-time analysis (`--all`) includes them",
                tasks.join(", ")
            )
        }
    }
}
