//! Actions on late wakeups, at the end of a measurement.

use laggard_model::LateActionReport;

use crate::doc::{Block, Cell, Column, Document, Reason, Table, code};

/// Describes what the actions on late wakeups did.
pub fn document(report: &LateActionReport) -> Document {
    let mut document = Document::new("Actions on late wakeups");
    let above = match report.threshold {
        Some(threshold) => format!(" above {}", Cell::Time(threshold)),
        None => String::new(),
    };
    let mut skipped = Vec::new();
    if report.within_interval > 0 {
        skipped.push(format!(
            "{} within {} of another",
            Cell::Count(report.within_interval),
            Cell::Time(report.interval),
        ));
    }
    if report.busy > 0 {
        skipped.push(format!("{} while an action ran", Cell::Count(report.busy)));
    }
    if report.old > 0 {
        skipped.push(format!(
            "{} noticed more than 1 s later",
            Cell::Count(report.old)
        ));
    }
    if report.passed > 0 {
        skipped.push(format!(
            "{} due while another cycle went on",
            Cell::Count(report.passed)
        ));
    }
    if report.after_stop > 0 {
        skipped.push(format!("{} after `stop`", Cell::Count(report.after_stop)));
    }
    let skipped = match skipped.as_slice() {
        [] => String::new(),
        reasons => format!("; skipped {}", reasons.join(", ")),
    };
    document.paragraph(format!(
        "Late wakeups{above}: {}; acted on {}{skipped}",
        Cell::Count(report.late),
        Cell::Count(report.acted),
    ));
    if report.acted == 0 {
        return document;
    }
    let columns = ["done", "failed", "skipped", "median delay", "max"];
    let columns = columns.map(Column::number);
    let mut table = Table::new(columns.into_iter().chain([Column::sentence("action")]));
    for action in &report.actions {
        let time = |time| Cell::time_or(time, Reason::NotApplicable);
        table.row([
            Cell::Count(action.done),
            Cell::Count(action.failed),
            Cell::Count(action.skipped),
            time(action.delay.quantile(0.5)),
            time(action.delay.max()),
            code(&action.action).into(),
        ]);
    }
    document.push(Block::Table(table));
    let failures = report.actions.iter().filter_map(|action| {
        let error = action.error.as_ref()?;
        Some(format!("{} failed: {error}", code(&action.action)))
    });
    document.lines(failures.collect());
    document
}
