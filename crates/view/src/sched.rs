//! `laggard sched`: whether a task set is schedulable.

use laggard_answer::sched::{LargestPart, SchedReport, TaskRemark, TaskVerdict, Verdict};
use laggard_model::Route;
use laggard_model::name::series_words;

use crate::doc::{Block, Cell, Column, Detail, Document, Reason, Table, Verdict as SetVerdict};
use crate::phrase::{sched as phrase, trust};

/// Number of tasks that the short form shows. Of more, it shows those with the worst
/// verdicts.
const MAX_TASKS: usize = 9;

/// States a difference between the task set in the file and the analysed one.
pub fn remark(remark: &TaskRemark) -> String {
    phrase::remark(remark)
}

/// Describes the report. `Full` adds every response, the tests of the whole set, and all
/// warnings.
pub fn document(report: &SchedReport, detail: Detail) -> Document {
    let mut document = Document::new("Schedulability of the tasks");
    document.push(Block::Verdicts(verdicts(report)));
    let warnings = report.notes.iter().filter(|note| note.is_warning());
    document.lines(warnings.map(trust::note).collect());
    match detail {
        Detail::Short => short(&mut document, report),
        Detail::Full => full(&mut document, report),
    }
    document
}

/// States the verdict on the set: one line for each verdict of its tasks, the worst first.
fn verdicts(report: &SchedReport) -> Vec<SetVerdict> {
    let with = |verdict: Verdict| {
        let tasks = report
            .tasks
            .iter()
            .filter(move |task| task.verdict == verdict);
        tasks.collect::<Vec<&TaskVerdict>>()
    };
    let line = |verdict: Verdict, tasks: &[&TaskVerdict]| SetVerdict {
        tone: phrase::tone(verdict),
        word: phrase::set_verdict(verdict).into(),
        text: phrase::tasks(verdict, tasks, report.tasks.len()),
    };
    let bad: Vec<SetVerdict> = [Verdict::Misses, Verdict::Unknown]
        .into_iter()
        .map(|verdict| (verdict, with(verdict)))
        .filter(|(_, tasks)| !tasks.is_empty())
        .map(|(verdict, tasks)| line(verdict, &tasks))
        .collect();
    if bad.is_empty() {
        vec![line(Verdict::Meets, &with(Verdict::Meets))]
    } else {
        bad
    }
}

fn short(document: &mut Document, report: &SchedReport) {
    let mut shown: Vec<&TaskVerdict> = report.tasks.iter().collect();
    shown.sort_by_key(|task| match task.verdict {
        Verdict::Misses => 0,
        Verdict::Unknown => 1,
        Verdict::Meets => 2,
    });
    let hidden = shown.split_off(shown.len().min(MAX_TASKS));
    let is_hidden = |task: &TaskVerdict| hidden.iter().any(|hidden| std::ptr::eq(*hidden, task));
    let shown = || report.tasks.iter().filter(|task| !is_hidden(task));
    // A service that all tasks share is in the caption, so that the table fits into 80 columns.
    let first = report.tasks.first().map(|task| task.task.service);
    let is_mixed = report
        .tasks
        .iter()
        .any(|task| Some(task.task.service) != first);
    let mut columns = vec![Column::name("task"), Column::name("verdict")];
    columns.extend(is_mixed.then(|| Column::name("runs as")));
    columns.extend(["deadline", "worst response", "slack"].map(Column::number));
    let mut table = Table::new(columns);
    if let Some(service) = first.filter(|_| !is_mixed) {
        let words = series_words(service, Route::Direct);
        table = table.caption(format!("All tasks run as {words}."));
    }
    for task in shown() {
        let mut cells = vec![task.task.name.as_str().into(), status(task)];
        cells.extend(is_mixed.then(|| service(task)));
        cells.extend([
            Cell::Time(task.task.deadline_ns),
            phrase::response(task),
            slack(task),
        ]);
        table.row(cells);
    }
    if !hidden.is_empty() {
        table.note(format!("{} more tasks: `--all`", hidden.len()));
    }
    document.push(Block::Table(table));
    let mut remedies: Vec<String> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    for task in shown() {
        let name = phrase::name(task);
        if task.verdict == Verdict::Misses {
            lines.push(format!("{name}: {}", phrase::limit(&task.limit)));
        }
        for (fact, remedy) in task.doubts.iter().map(phrase::doubt) {
            lines.push(format!("{name}: {fact}"));
            remedies.extend(remedy.filter(|remedy| !remedies.contains(remedy)));
        }
    }
    lines.extend(report.remarks.iter().map(phrase::remark));
    document.lines(lines);
    let warnings = report.notes.iter().filter(|note| !note.is_warning());
    let warnings = match warnings.count() {
        0 => String::new(),
        1 => " with 1 warning".into(),
        count => format!(" with {count} warnings"),
    };
    document.lines(vec![
        phrase::data(report),
        format!("All tests{warnings}: `--all`"),
        format!("Next: {}", next(report, remedies)),
    ]);
}

/// States the next step: the remedy for the largest part of a miss, or for the doubts.
fn next(report: &SchedReport, mut remedies: Vec<String>) -> String {
    let mut tasks = report.tasks.iter();
    if let Some(task) = tasks.find(|task| task.verdict == Verdict::Misses) {
        let name = phrase::name(task);
        remedies.insert(
            0,
            match task.limit.largest {
                LargestPart::Overload | LargestPart::Above { .. } => {
                    format!("shorten the tasks that run before {name}, or lengthen its deadline")
                }
                LargestPart::Work { .. } => {
                    format!("shorten the work of {name}, or lengthen its deadline")
                }
                LargestPart::Blocking { .. } => format!("shorten what blocks {name}"),
                LargestPart::Stalls { .. }
                | LargestPart::UnfinishedStall { .. }
                | LargestPart::Latency { .. } => {
                    "`laggard why` with this recording shows the causes of the latency".into()
                }
            },
        );
    }
    if remedies.is_empty() {
        "`laggard rehearse` runs a model of the tasks and counts misses".into()
    } else {
        remedies.join("; ")
    }
}

fn service(task: &TaskVerdict) -> Cell {
    series_words(task.task.service, Route::Direct).into()
}

/// Returns the deadline minus the worst response, which lies between two limits.
fn slack(task: &TaskVerdict) -> Cell {
    let deadline = task.task.deadline_ns.as_f64();
    let [low, high] = [
        task.slack_ns,
        task.least_ns.map(|response| deadline - response),
    ]
    .map(|slack| slack.map(phrase::signed));
    match (low, high) {
        (Some(low), Some(high)) if low != high => {
            Cell::Interval(Box::new(low.into()), Box::new(high.into()))
        }
        (Some(low), _) => low.into(),
        (None, Some(high)) => Cell::AtMost(Box::new(high.into())),
        (None, None) => Cell::Unknown(Reason::NotApplicable),
    }
}

fn status(task: &TaskVerdict) -> Cell {
    let word = phrase::verdict(task.verdict).to_owned();
    Cell::Status(phrase::tone(task.verdict), word)
}

fn full(document: &mut Document, report: &SchedReport) {
    document.push(Block::Table(responses(report)));
    for task in &report.tasks {
        let mut facts = vec![phrase::limit(&task.limit)];
        if report.set.all_kept {
            facts.push(phrase::rated(task, report.permitted_ns));
        }
        facts.extend(task.doubts.iter().map(phrase::doubt).map(|(fact, remedy)| {
            let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
            format!("UNKNOWN because {fact}{remedy}")
        }));
        facts.extend(phrase::maxima(task));
        facts.extend(
            task.pseudo
                .as_ref()
                .map(|pseudo| phrase::pseudo(pseudo, task.task.buffers.unwrap_or_default())),
        );
        document.heading(phrase::name(task));
        document.push(Block::List(facts));
    }
    document.lines(report.remarks.iter().map(phrase::remark).collect());
    document.heading("Tests of the whole set");
    document.lines(phrase::set(&report.set).into());
    let mut legend = vec![phrase::data(report)];
    legend.extend(phrase::RESPONSES.map(String::from));
    document.lines(legend);
    let notes = report.notes.iter().filter(|note| !note.is_warning());
    document.notes("Warnings", notes.map(trust::note).collect());
}

fn responses(report: &SchedReport) -> Table {
    let mut table = Table::new([
        Column::name("task"),
        Column::name("runs as"),
        Column::number("work"),
        Column::number("period"),
        Column::number("deadline"),
        Column::number("ideal").starting_part(),
        Column::number("jitter + blocking"),
        Column::number("worst response"),
        Column::number("slack"),
        Column::name("verdict"),
    ]);
    for task in &report.tasks {
        table.row([
            task.task.name.as_str().into(),
            service(task),
            Cell::Time(task.task.compute_ns),
            Cell::Time(task.task.period_ns),
            Cell::Time(task.task.deadline_ns),
            phrase::bound(task.ideal_ns),
            phrase::bound(task.jitter_ns),
            phrase::response(task),
            slack(task),
            status(task),
        ]);
    }
    table
}
