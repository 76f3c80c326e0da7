//! Tables of Timmerman's evaluation of 1998.

use laggard_model::{InterruptSource, Nanos, RtosCriterion};
use serde::Deserialize;

use super::dir::NOT_REPORTED;
use super::{MissingReason, StudyCell, StudyDir, StudyError, SystemTable};
use crate::rtos::{InterruptFigures, InterruptTimes, RtosReason, TestVerdict};
use crate::switch::SwitchReport;

/// Step of `laggard bench rtos`.
pub(super) const RTOS: &str = "rtos";
/// Step of `laggard bench switch`.
pub(super) const SWITCH: &str = "switch";

/// Part of the result of `laggard bench rtos` that the study shows.
#[derive(Debug, Deserialize)]
pub(super) struct Rtos {
    rows: Vec<Criterion>,
    pub(super) interrupts: Option<InterruptFigures>,
}

/// Row of that result.
#[derive(Debug, Deserialize)]
struct Criterion {
    criterion: String,
    verdict: TestVerdict,
    reason: Option<RtosReason>,
}

/// Returns whether the interrupts came from a timer with a separate clock.
pub(super) fn has_separate_clock(dir: &StudyDir) -> Result<bool, StudyError> {
    let interrupts = dir.result::<Rtos>(RTOS)?.and_then(|rtos| rtos.interrupts);
    Ok(interrupts.is_some_and(|interrupts| interrupts.source == InterruptSource::Hpet))
}

pub(super) fn tables(dir: &StudyDir) -> Result<Vec<SystemTable>, StudyError> {
    let rtos = dir.result::<Rtos>(RTOS)?;
    let unmeasured = dir.no_result(RTOS);
    let mut criteria = SystemTable::new("criteria", ["verdict", "requirement"]);
    for row in rtos.iter().flat_map(|rtos| &rtos.rows) {
        let verdict = StudyCell::Verdict {
            verdict: row.verdict,
            reason: row.reason.clone(),
        };
        let criterion = row.criterion.parse::<RtosCriterion>().ok();
        let requirement = criterion.map_or(NOT_REPORTED, |criterion| StudyCell::Name {
            text: criterion.requirement().into(),
        });
        criteria.row(row.criterion.clone(), vec![verdict, requirement]);
    }
    if criteria.rows.is_empty() {
        criteria.row("all", vec![unmeasured.clone(); 2]);
    }
    Ok(vec![criteria, switches(dir)?, interrupts(dir)?])
}

/// Cell of a quantile of too few values.
const TOO_FEW: StudyCell = StudyCell::Missing {
    reason: MissingReason::TooFew,
};

/// Figures 2 and 4: durations of context switches by the number of threads.
fn switches(dir: &StudyDir) -> Result<SystemTable, StudyError> {
    let mut table = SystemTable::new("switches", ["min", "mean", "p999", "max"]);
    let report = dir.result::<SwitchReport>(SWITCH)?;
    for row in report.iter().flat_map(|report| &report.rows) {
        let cells = match &row.gross {
            Some(gross) => vec![
                StudyCell::Time { ns: gross.min_ns },
                StudyCell::Time { ns: gross.mean_ns },
                gross.p999_ns.map_or(TOO_FEW, |ns| StudyCell::Time { ns }),
                StudyCell::Time { ns: gross.max_ns },
            ],
            None => vec![NOT_REPORTED; 4],
        };
        table.row(row.threads.to_string(), cells);
    }
    if table.rows.is_empty() {
        table.row("10", vec![dir.no_result(SWITCH); 4]);
    }
    Ok(table)
}

/// Figures 5 and 7: ISR latency and ISR dispatch latency.
pub(super) fn interrupts(dir: &StudyDir) -> Result<SystemTable, StudyError> {
    let rtos = dir.result::<Rtos>(RTOS)?;
    let rtos = rtos.as_ref();
    let unmeasured = &dir.no_result(RTOS);
    type Part = fn(&InterruptFigures) -> Option<&InterruptTimes>;
    let parts: [(&str, Part); 4] = [
        ("latency", |figures| Some(&figures.latency)),
        ("handler", |figures| Some(&figures.handler)),
        ("dispatch", |figures| Some(&figures.dispatch)),
        ("thread", |figures| figures.thread.as_ref()),
    ];
    let mut table = SystemTable::new("interrupts", ["mean", "median", "p999", "max"]);
    let figures = rtos.and_then(|rtos| rtos.interrupts.as_ref());
    let no_thread = StudyCell::Missing {
        reason: MissingReason::NoThread,
    };
    for (row, part) in parts {
        let times = figures.and_then(part);
        let missing = match rtos {
            None => unmeasured,
            Some(_) if row == "thread" && times.is_none() => &no_thread,
            Some(_) => &NOT_REPORTED,
        };
        let is_p999 = figures.is_some_and(|figures| figures.quantile == Some(0.999));
        let ns =
            |time: fn(&InterruptTimes) -> Option<Nanos>| times.and_then(time).map(Nanos::as_f64);
        let max = ns(|times| times.max_ns);
        let no_quantile = if max.is_some() { &TOO_FEW } else { missing };
        let cells = [
            (times.and_then(|times| times.mean_ns), missing),
            (ns(|times| times.median_ns), missing),
            (
                ns(|times| times.quantile_ns).filter(|_| is_p999),
                no_quantile,
            ),
            (max, missing),
        ];
        let cell = |(ns, missing): (Option<f64>, &StudyCell)| {
            ns.map_or_else(|| missing.clone(), |ns| StudyCell::Time { ns })
        };
        table.row(row, cells.map(cell).into());
    }
    Ok(table)
}
