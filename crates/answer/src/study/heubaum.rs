//! Tables of Heubaum's paper of 1995.

use std::num::NonZeroUsize;

use laggard_model::{Contexts, Route, Service};

use super::{
    Mechanism, MissingReason, Piece, StudyCell, StudyDir, StudyError, StudyName, SystemTable,
};
use crate::show::{By, Figures, RecordingReport, measured, recording};

/// Context of deferred work: key, service and route. The first that was recorded counts.
type Context = (&'static str, &'static [(Service, Route)]);

/// Table 3: work in any context.
const ANY: [Context; 2] = [
    ("softirq", &[(Service::Softirq, Route::Direct)]),
    ("kworker", &[(Service::Worker, Route::Deferred)]),
];
/// Table 4: work in the thread that needs it.
const PLAIN: [Context; 2] = [
    (
        "plain_woken",
        &[
            (Service::Other, Route::Deferred),
            (Service::Other, Route::Direct),
        ],
    ),
    ("plain_busy", &[(Service::Other, Route::Direct)]),
];
/// Table 5: work in a boosted thread.
const BOOSTED: [Context; 4] = [
    ("boosted", &[(Contexts::BOOSTED, Route::Direct)]),
    ("lent", &[(Contexts::LENT, Route::Direct)]),
    ("niced", &[(Contexts::NICED, Route::Direct)]),
    ("sliced", &[(Contexts::SLICED, Route::Direct)]),
];
/// Step whose plain thread computes beside busy threads.
const BUSY: &str = "busy";

pub(super) fn tables(
    dir: &StudyDir,
    threads: NonZeroUsize,
) -> Result<Vec<SystemTable>, StudyError> {
    let mut steps = Vec::new();
    for (step, pieces) in dir.steps() {
        let report = pieces
            .first()
            .map(|piece| read(piece, threads))
            .transpose()?;
        steps.push((step, report));
    }
    let columns = || dir.steps().map(|(step, _)| step.name);
    let loads = || columns().filter(|name| *name != BUSY);
    let mut average = SystemTable::new("table1", loads());
    let mut max = SystemTable::new("table2", loads());
    let irq: Context = ("irq", &[(Service::Irq, Route::Direct)]);
    let of_irq = |of: fn(&Figures) -> Option<(f64, bool)>| {
        let steps = steps.iter().filter(|(step, _)| step.name != BUSY);
        steps
            .map(|(step, report)| cell(report.as_ref(), dir.unrecorded(step), irq, of))
            .collect::<Vec<StudyCell>>()
    };
    average.row("irq", of_irq(mean));
    max.row("irq", of_irq(largest));
    let mut tables = vec![average, max];
    for (name, contexts) in [
        ("table3", &ANY[..]),
        ("table4", &PLAIN),
        ("table5", &BOOSTED),
    ] {
        let mut table = SystemTable::new(name, columns());
        for &context in contexts {
            let cells = steps.iter().map(|(step, report)| {
                // Under a load the thread sleeps; beside busy threads it computes, too.
                if context.0 == "plain_busy" && step.name != BUSY {
                    return StudyCell::Missing {
                        reason: MissingReason::NotApplicable,
                    };
                }
                cell(report.as_ref(), dir.unrecorded(step), context, mean)
            });
            let cells = cells.collect();
            table.row(context.0, cells);
        }
        tables.push(table);
    }
    Ok(tables)
}

/// Orders the mechanisms of Tables 3 to 5 by the highest average latency of their columns. A
/// mechanism without a value in a recorded column is left out.
pub(super) fn mechanisms(study: StudyName, tables: &[SystemTable]) -> Vec<Mechanism> {
    if study != StudyName::Heubaum {
        return Vec::new();
    }
    let deferred = tables
        .iter()
        .filter(|table| ["table3", "table4", "table5"].contains(&table.name));
    let rows = deferred.flat_map(|table| &table.rows);
    let mut mechanisms: Vec<Mechanism> = rows
        .filter_map(|(row, cells)| {
            let mut worst = None;
            for cell in cells {
                if let StudyCell::Time { ns } | StudyCell::AtLeast { ns } = cell {
                    worst = Some(worst.map_or(*ns, |worst: f64| worst.max(*ns)));
                }
                let no_service = StudyCell::Missing {
                    reason: MissingReason::NoService,
                };
                if *cell == no_service {
                    return None;
                }
            }
            Some(Mechanism {
                row: row.clone(),
                worst_mean_ns: worst?,
            })
        })
        .collect();
    mechanisms.sort_by(|one, other| one.worst_mean_ns.total_cmp(&other.worst_mean_ns));
    mechanisms
}

fn read(piece: &Piece, threads: NonZeroUsize) -> Result<RecordingReport, StudyError> {
    Ok(recording(
        measured(&piece.recording, By::Service, threads)?,
        false,
    ))
}

fn mean(figures: &Figures) -> Option<(f64, bool)> {
    Some((figures.mean_ns?, figures.mean_is_at_least))
}

fn largest(figures: &Figures) -> Option<(f64, bool)> {
    Some((figures.largest_ns?.as_f64(), figures.largest_is_at_least))
}

fn cell(
    report: Option<&RecordingReport>,
    unrecorded: StudyCell,
    (_, services): Context,
    of: fn(&Figures) -> Option<(f64, bool)>,
) -> StudyCell {
    let Some(report) = report else {
        return unrecorded;
    };
    let row = services.iter().find_map(|wanted| {
        let mut rows = report.services.iter();
        rows.find(|row| (row.service, row.route) == *wanted)
    });
    match row.and_then(|row| of(&row.latency)) {
        Some((ns, true)) => StudyCell::AtLeast { ns },
        Some((ns, false)) => StudyCell::Time { ns },
        None => StudyCell::Missing {
            reason: MissingReason::NoService,
        },
    }
}
