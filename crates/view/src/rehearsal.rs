//! `laggard rehearse`: counted misses of a model next to the predicted ones.

use laggard_answer::rehearsal::{
    Effect, Inside, Predicted, RehearsalReport, Summary, TaskRehearsal, mttf,
};
use laggard_model::name::series_words;
use laggard_model::{Nanos, Route, TaskCount};

use crate::doc::{Block, Cell, Column, Detail, Document, Reason, Table, Verdict};
use crate::phrase::sched::response;
use crate::phrase::{rehearsal as phrase, trust};

/// Describes the report. `Full` adds every figure of the tasks, and their effect on the
/// services.
pub fn document(report: &RehearsalReport, detail: Detail) -> Document {
    let mut document = Document::new("Rehearsal of the tasks");
    document.push(Block::Verdicts(verdicts(report)));
    let warnings = report.notes.iter().filter(|note| note.is_warning());
    document.lines(warnings.map(trust::note).collect());
    match detail {
        Detail::Short => document.push(Block::Table(compared(&report.tasks))),
        Detail::Full => full(&mut document, report),
    }
    document.lines(remarks(&report.tasks));
    let mut lines = phrase::data(report);
    if detail == Detail::Short {
        lines.extend(phrase::warnings(report));
        lines.push(phrase::next(report));
    }
    document.lines(lines);
    if detail == Detail::Full {
        document.paragraph(phrase::LEGEND);
        let others = report.notes.iter().filter(|note| !note.is_warning());
        document.notes("Warnings", others.map(trust::note).collect());
    }
    document
}

/// Describes the counts of tasks that ran without a prediction.
pub fn counts(counts: &[TaskCount], detail: Detail) -> Document {
    let mut document = Document::new("Counts of the tasks");
    push_counts(&mut document, counts, detail);
    document
}

fn verdicts(report: &RehearsalReport) -> Vec<Verdict> {
    let outside = report.tasks.iter().filter(|task| !task.is_as_predicted());
    let bad: Vec<Verdict> = outside
        .map(|task| Verdict {
            tone: crate::text::Tone::Bad,
            word: "NOT AS PREDICTED".into(),
            text: phrase::outside(task),
        })
        .collect();
    if bad.is_empty() {
        vec![Verdict {
            tone: crate::text::Tone::Good,
            word: "AS PREDICTED".into(),
            text: "every count lies in its 95 % prediction interval".into(),
        }]
    } else {
        bad
    }
}

fn service(count: &TaskCount) -> Cell {
    series_words(count.task.service, Route::Direct).into()
}

fn compared(tasks: &[TaskRehearsal]) -> Table {
    let mut table = Table::new([
        Column::name("task"),
        Column::name("runs as"),
        Column::number("underruns"),
        Column::number("predicted (95 %)"),
        Column::number("late jobs").starting_part(),
        Column::number("predicted (95 %)"),
    ]);
    for task in tasks {
        table.row([
            task.count.task.name.as_str().into(),
            service(&task.count),
            Cell::MeanCount(task.failures),
            interval(&task.predicted_failures),
            Cell::Count(task.count.late),
            interval(&task.predicted_late),
        ]);
    }
    table
}

fn interval(predicted: &Predicted) -> Cell {
    Cell::estimate(
        Cell::MeanCount(predicted.mean),
        Cell::MeanCount(predicted.low),
        Cell::MeanCount(predicted.high),
    )
}

fn full(document: &mut Document, report: &RehearsalReport) {
    document.heading("Counted");
    let counts: Vec<TaskCount> = report.tasks.iter().map(|task| task.count.clone()).collect();
    push_counts(document, &counts, Detail::Full);
    document.heading("Predicted for the same time");
    document.push(Block::Table(predicted(&report.tasks)));
    if !report.others.is_empty() {
        document.heading("Latency of the services, without -> with the tasks");
        document.push(Block::Table(effects(&report.others)));
    }
}

fn push_counts(document: &mut Document, counts: &[TaskCount], detail: Detail) {
    let is_full = detail == Detail::Full;
    let full = |columns: &[Column]| {
        if is_full {
            columns.to_vec()
        } else {
            Vec::new()
        }
    };
    let columns = [
        vec![Column::name("task"), Column::name("runs as")],
        full(&["CPU", "period", "work", "deadline"].map(Column::number)),
        vec![Column::number("jobs").starting_part()],
        ["late", "underruns"].map(Column::number).into(),
        full(&[Column::number("MTTF")]),
        ["median", "p99", "max"].map(Column::number).into(),
    ];
    let mut table = Table::new(columns.into_iter().flatten());
    for count in counts {
        let task = &count.task;
        let mut row = vec![task.name.as_str().into(), service(count)];
        if is_full {
            row.push(task.cpu.to_string().into());
            row.extend([task.period_ns, task.compute_ns, task.deadline_ns].map(Cell::Time));
        }
        row.extend([count.jobs, count.late, count.underruns].map(Cell::Count));
        if is_full {
            row.push(mttf(count).map_or(Cell::Unknown(Reason::NotApplicable), Cell::MeanTime));
        }
        let responses = [
            count.median_response_ns,
            count.p99_response_ns,
            count.largest_response_ns,
        ];
        row.extend(responses.map(Cell::Time));
        table.row(row);
    }
    document.push(Block::Table(table));
    if is_full {
        document.lines(counts.iter().map(phrase::work).collect());
    }
}

fn predicted(tasks: &[TaskRehearsal]) -> Table {
    let mut table = Table::new([
        Column::name("task"),
        Column::number("underruns (95 %)"),
        Column::number("counted"),
        Column::name("verdict"),
        Column::number("factor"),
        Column::number("rule of the papers").starting_part(),
        Column::number("factor"),
        Column::number("late jobs (95 %)").starting_part(),
        Column::number("counted"),
        Column::name("verdict"),
        Column::number("worst response").starting_part(),
        Column::number("counted"),
    ]);
    let factor = |factor: Option<f64>| {
        factor.map_or(Cell::Unknown(Reason::NotApplicable), |factor| {
            format!("{factor:.2}").into()
        })
    };
    for task in tasks {
        table.row([
            task.count.task.name.as_str().into(),
            interval(&task.predicted_failures),
            Cell::MeanCount(task.failures),
            status(task.verdict),
            factor(task.factor),
            Cell::MeanCount(task.paper_failures),
            factor(task.paper_factor),
            interval(&task.predicted_late),
            Cell::Count(task.count.late),
            status(task.late_verdict),
            response(&task.analysis),
            Cell::Time(task.count.largest_response_ns),
        ]);
    }
    table
}

fn status(inside: Inside) -> Cell {
    Cell::Status(phrase::tone(inside), phrase::verdict(inside).into())
}

fn remarks(tasks: &[TaskRehearsal]) -> Vec<String> {
    let remarks = tasks.iter().flat_map(|task| {
        let name = phrase::name(task);
        task.remarks
            .iter()
            .map(move |remark| format!("{name}: {}", phrase::remark(remark)))
    });
    remarks.collect()
}

fn effects(others: &[Effect]) -> Table {
    let columns = ["samples", "median", "p99", "max"].map(Column::number);
    let mut table = Table::new(std::iter::once(Column::name("Latency")).chain(columns));
    for effect in others {
        let change = |figure: fn(&Summary) -> Cell| {
            let [without, with] = [&effect.before, &effect.meanwhile].map(figure);
            Cell::Text(format!("{without} -> {with}"))
        };
        table.row([
            series_words(effect.service, effect.route).into(),
            change(|summary| Cell::Count(summary.samples)),
            change(|summary| Cell::Time(summary.median_ns)),
            change(|summary| Cell::time_or(summary.p99_ns, Reason::TooFewSamples)),
            change(max),
        ]);
    }
    table.note("A larger sample has a larger max.");
    table
}

fn max(summary: &Summary) -> Cell {
    let max: Nanos = summary.largest_ns;
    if summary.largest_is_at_least {
        Cell::AtLeast(Box::new(Cell::Time(max)))
    } else {
        Cell::Time(max)
    }
}
