//! Tables of Heubaum's paper of 1995.

use std::num::NonZeroUsize;

use laggard_model::{Contexts, Route, Service};

use super::plan::Step;
use super::{
    Mechanism, MissingReason, Piece, StudyCell, StudyDir, StudyError, StudyName, SystemTable,
    timmerman,
};
use crate::show::{By, Figures, RecordingReport, measured, recording};

/// Context of deferred work: key, service and route. Threads are woken by the interrupt, as
/// the softirq is, so that their latencies can be compared; a kworker is always queued by a
/// softirq. The thread that computes finds the work in its turn.
type Context = (&'static str, Service, Route);

/// Table 3: work in any context.
const ANY: [Context; 2] = [
    ("softirq", Service::Softirq, Route::Direct),
    ("kworker", Service::Worker, Route::Deferred),
];
/// Table 4: work in the thread that needs it.
const PLAIN: [Context; 2] = [
    ("plain_woken", Service::Other, Route::Direct),
    (COMPUTING, Service::Other, Route::Direct),
];
/// Row of the plain thread that computes.
const COMPUTING: &str = "plain_busy";
/// Table 5: work in a boosted thread.
const BOOSTED: [Context; 4] = [
    ("boosted", Contexts::BOOSTED, Route::Direct),
    ("lent", Contexts::LENT, Route::Direct),
    ("niced", Contexts::NICED, Route::Direct),
    ("sliced", Contexts::SLICED, Route::Direct),
];
/// Row of the distance of its bumps.
const BUMPS: &str = "bumps";
/// Row of the wakeups that Tables 1 and 2 lack.
const UNSEEN: &str = "irq_unseen";
/// Start of the names of steps whose plain thread computes.
pub(super) const BUSY: &str = "busy-";

pub(super) fn tables(
    dir: &StudyDir,
    threads: NonZeroUsize,
) -> Result<Vec<SystemTable>, StudyError> {
    let mut steps = Vec::new();
    for (step, pieces) in dir.steps().filter(|(step, _)| step.bench.is_none()) {
        let reports = pieces.iter().map(|piece| read(piece, threads));
        steps.push((step, pieces, reports.collect::<Result<Vec<_>, _>>()?));
    }
    let (busy, steps): (Vec<_>, Vec<_>) = steps
        .into_iter()
        .partition(|(step, ..)| step.name.starts_with(BUSY));
    let loads = || steps.iter().map(|(step, ..)| step.name);
    let cells = |steps: &[(&Step, &[Piece], Vec<RecordingReport>)], context: Context, figure| {
        let (_, service, route) = context;
        let cells = steps.iter().map(|(step, pieces, reports)| {
            let absent = dir.absent(step, pieces, service, &[route]);
            cell(reports, dir.is_whole(step), absent, context, figure)
        });
        cells.collect::<Vec<StudyCell>>()
    };
    let irq: Context = ("irq", Service::Irq, Route::Direct);
    let unseen = steps.iter().map(|(step, pieces, reports)| {
        let absent = dir.absent(step, pieces, Service::Irq, &[Route::Direct]);
        let has_none = StudyCell::Missing {
            reason: MissingReason::NoService,
        };
        match unseen(reports) {
            Some(share) if absent != has_none => StudyCell::Share { share },
            _ => absent,
        }
    });
    let unseen: Vec<StudyCell> = unseen.collect();
    let mut tables = Vec::new();
    for (name, figure) in [("table1", Figure::Mean), ("table2", Figure::Max)] {
        let mut table = SystemTable::new(name, loads());
        table.row(irq.0, cells(&steps, irq, figure));
        table.row(UNSEEN, unseen.clone());
        tables.push(table);
    }
    let clock = dir.result::<timmerman::Rtos>(timmerman::RTOS)?;
    // Without an HPET, the gap names its absence.
    if clock.is_none_or(|clock| clock.interrupts.is_some()) {
        tables.push(timmerman::interrupts(dir)?);
    }
    for (name, contexts) in [
        ("table3", &ANY[..]),
        ("table4", &PLAIN),
        ("table5", &BOOSTED),
    ] {
        let mut table = SystemTable::new(name, loads());
        for &context in contexts {
            let is_computing = context.0 == COMPUTING;
            let steps = if is_computing { &busy } else { &steps };
            table.row(context.0, cells(steps, context, Figure::Mean));
            if is_computing {
                table.row(BUMPS, steps.iter().map(bumps(dir, context)).collect());
            }
        }
        tables.push(table);
    }
    Ok(tables)
}

/// Returns the distance of the bumps of Figure 4 for a step.
fn bumps<'a>(
    dir: &'a StudyDir,
    (_, service, route): Context,
) -> impl Fn(&(&Step, &[Piece], Vec<RecordingReport>)) -> StudyCell + 'a {
    move |(step, pieces, reports)| {
        if pieces.is_empty() {
            return dir.absent(step, pieces, service, &[route]);
        }
        let contexts = reports.iter().filter_map(|report| report.contexts.as_ref());
        let mut rows = contexts.flat_map(|contexts| &contexts.rows);
        let bumps = rows.find_map(|row| {
            let is_row = (row.service, row.route) == (service, route);
            row.bumps.as_ref().filter(|_| is_row)
        });
        let missing = StudyCell::Missing {
            reason: MissingReason::NoBumps,
        };
        bumps.map_or(missing, |bumps| StudyCell::Time { ns: bumps.every_ns })
    }
}

/// Orders the mechanisms of Tables 3 to 5 by their highest average latency under a load. A
/// mechanism without a value under a recorded load is left out.
pub(super) fn mechanisms(study: StudyName, tables: &[SystemTable]) -> Vec<Mechanism> {
    if study != StudyName::Heubaum {
        return Vec::new();
    }
    let deferred = tables
        .iter()
        .filter(|table| ["table3", "table4", "table5"].contains(&table.name));
    let rows = deferred.flat_map(|table| &table.rows);
    let rows = rows.filter(|(row, _)| row != BUMPS);
    let mut mechanisms: Vec<Mechanism> = rows
        .filter_map(|(row, cells)| {
            let mut worst = None;
            for cell in cells {
                if let StudyCell::Time { ns } | StudyCell::AtLeast { ns } = cell {
                    worst = Some(worst.map_or(*ns, |worst: f64| worst.max(*ns)));
                }
                let is_absent = matches!(
                    cell,
                    StudyCell::Missing {
                        reason: MissingReason::NoService | MissingReason::NoWakeup
                    }
                );
                if is_absent {
                    return None;
                }
            }
            Some(Mechanism {
                row: row.clone(),
                worst_mean_ns: worst?,
            })
        })
        .collect();
    mechanisms.sort_by(|first, second| first.worst_mean_ns.total_cmp(&second.worst_mean_ns));
    mechanisms
}

pub(super) fn read(piece: &Piece, threads: NonZeroUsize) -> Result<RecordingReport, StudyError> {
    Ok(recording(
        measured(&piece.recording, By::Service, threads)?,
        false,
    ))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Figure {
    Mean,
    Max,
}

/// Returns the share of wakeups whose timer interrupt was not seen. Tables 1 and 2 lack them.
fn unseen(reports: &[RecordingReport]) -> Option<f64> {
    let (mut seen, mut all) = (0, 0);
    for row in reports.iter().flat_map(|report| &report.services) {
        if row.service == Service::Irq {
            seen += row.latency.samples;
        } else {
            all += row.latency.samples;
        }
    }
    (all > 0).then(|| all.saturating_sub(seen) as f64 / all as f64)
}

/// Returns the figure of all recordings of a step, or `absent` without one. The maximum of a step
/// that is not whole is a lower limit.
pub(super) fn cell(
    reports: &[RecordingReport],
    is_whole: bool,
    absent: StudyCell,
    (_, service, route): Context,
    figure: Figure,
) -> StudyCell {
    let rows = reports.iter().flat_map(|report| &report.services);
    let rows = rows.filter(|row| (row.service, row.route) == (service, route));
    let figures: Vec<&Figures> = rows.map(|row| &row.latency).collect();
    let result = match figure {
        Figure::Mean => mean(&figures),
        Figure::Max => largest(&figures).map(|(ns, open)| (ns, open || !is_whole)),
    };
    match result {
        Some((ns, true)) => StudyCell::AtLeast { ns },
        Some((ns, false)) => StudyCell::Time { ns },
        None => absent,
    }
}

/// Returns the mean, and whether it is a lower limit.
fn mean(figures: &[&Figures]) -> Option<(f64, bool)> {
    let (mut sum, mut samples) = (0.0, 0.0);
    for figures in figures {
        if let Some(mean) = figures.mean_ns {
            sum += mean * figures.samples as f64;
            samples += figures.samples as f64;
        }
    }
    let is_at_least = figures.iter().any(|figures| figures.mean_is_at_least);
    (samples > 0.0).then(|| (sum / samples, is_at_least))
}

/// Returns the maximum, and whether it is a lower limit.
fn largest(figures: &[&Figures]) -> Option<(f64, bool)> {
    let max = figures
        .iter()
        .filter_map(|figures| figures.largest_ns)
        .max()?;
    let is_at_least = figures.iter().any(|figures| figures.largest_is_at_least);
    Some((max.as_f64(), is_at_least))
}

#[cfg(test)]
mod tests {
    use laggard_model::Nanos;

    use super::*;

    #[test]
    fn figures_of_all_recordings_of_a_step_count() {
        let figures = |samples, mean, max| Figures {
            samples,
            min_ns: None,
            mean_ns: Some(mean),
            mean_is_at_least: false,
            deviation_ns: None,
            quantiles: Vec::new(),
            largest_ns: Some(Nanos::from_us(max)),
            largest_is_at_least: false,
            largest_at_ns: None,
        };
        let (first, second) = (figures(100, 10.0, 5), figures(300, 50.0, 9));

        assert_eq!(mean(&[&first, &second]), Some((40.0, false)));
        assert_eq!(largest(&[&first, &second]), Some((9_000.0, false)));
        assert_eq!((mean(&[]), largest(&[])), (None, None));
    }
}
