//! Notes below the tables of `laggard study`.

use laggard_answer::study::{
    MissingReason, StudyCell, StudyName, StudyReport, StudyRow, StudyTable,
};
use laggard_model::Nanos;
use laggard_model::text::span;

use crate::doc::Cell;

/// Lists the fixes against the causes of a table, each once with the rows that it is for.
fn fixes(report: &StudyReport, table: &StudyTable) -> Vec<String> {
    let mut fixes: Vec<(String, Vec<String>)> = Vec::new();
    for table_row in &table.rows {
        let cells = table_row.cells.iter().filter_map(|values| values.first());
        for cell in cells {
            let StudyCell::Cause { fix: Some(fix), .. } = cell else {
                continue;
            };
            let (action, row) = (
                crate::phrase::cause::action(fix),
                super::row(report.study, &table_row.row),
            );
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

/// States how often a thread with a period of 16 ms is late on the first system.
fn periods(study: StudyName, row: &StudyRow) -> Option<String> {
    let cells: Vec<&StudyCell> = row.cells.iter().filter_map(|cell| cell.first()).collect();
    let [_, StudyCell::Count { count }, every, ..] = cells[..] else {
        return None;
    };
    let (waits, row) = (Cell::Count(*count), super::row(study, &row.row));
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
            let Some(reason) = crate::phrase::rtos::reason(&table_row.row, reason) else {
                continue;
            };
            let verdict = crate::phrase::check::verdict(*verdict);
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
