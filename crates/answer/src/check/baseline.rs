//! Recordings compared with a baseline: a limit on the ratio of the rates of late wakeups.

use std::path::PathBuf;

use laggard_model::{LoadLabel, Route, Service};
use laggard_record::Recording;

use super::checking::{CheckError, Checking};
use super::{CheckFigure, CheckedRow, FigureOf, RequirementRow, TestVerdict, Undecided, Wrong};
use crate::compare::{Change, LevelComparison, Question, ServiceComparison, Unclear, compare};
use crate::load::Load;

/// Compares each service under `load` with the baseline.
pub(super) fn rows(
    checking: &Checking<'_>,
    row: &RequirementRow,
    load: &Load,
    ratio: f64,
) -> Result<Vec<CheckedRow>, CheckError> {
    let question = checking.question;
    if question.baseline.is_empty() {
        return Err(checking.wrong(row, Wrong::NoBaseline));
    }
    let mut first: Vec<PathBuf> = Vec::new();
    for dir in &question.baseline {
        let recording = Recording::open(dir)?;
        if LoadLabel::of(recording.manifest().load.as_ref()) == load.label {
            first.push(dir.clone());
        }
    }
    if first.is_empty() {
        let load = load.label.as_str().into();
        return Err(checking.wrong(row, Wrong::BaselineNotLoaded { load }));
    }
    let services = checking.lines(row, load, row.service)?;
    if load.has_ended_early() {
        let ended = services.into_iter();
        return Ok(ended
            .map(|line| of_another_load(checking, row, load, line))
            .collect());
    }
    // Each service could fail by chance. All services together may fail by chance only as
    // frequently as one requirement.
    let tests = services.len();
    let wrong = 1.0 - question.confidence().beyond;
    let comparison = compare(&Question {
        first,
        second: load.runs.iter().map(|run| run.dir.clone()).collect(),
        application: None,
        levels: Vec::new(),
        service: row.service,
        equal: ratio,
        changed: None,
        load_may_differ: false,
        threads: question.threads,
        confidence: 1.0 - 2.0 * wrong / tests as f64,
        look: None,
        seed: None,
    })?;
    let levels = comparison.services.iter();
    let levels =
        levels.flat_map(|service| service.levels.iter().map(move |level| (service, level)));
    Ok(levels
        .map(|compared| of_level(checking, row, load, compared, ratio))
        .collect())
}

/// Returns the row of a service that was recorded without the load for some of the time.
fn of_another_load(
    checking: &Checking<'_>,
    row: &RequirementRow,
    load: &Load,
    line: (Service, Route),
) -> CheckedRow {
    let mut checked = checking.row(row, load, Some(line));
    checked.why = Some(Undecided::LoadEnded);
    checked
}

fn of_level(
    checking: &Checking<'_>,
    row: &RequirementRow,
    load: &Load,
    (service, level): (&ServiceComparison, &LevelComparison),
    ratio: f64,
) -> CheckedRow {
    let (verdict, why) = verdict(level, ratio);
    let mut checked = checking.row(row, load, Some((service.service, service.route)));
    checked.verdict = verdict;
    checked.why = why;
    // Each side needs this length.
    checked.needed_ns = level.needed_ns.filter(|_| verdict == TestVerdict::Unknown);
    checked.figure = Some(CheckFigure {
        of: FigureOf::Ratio,
        value: level.ratio,
        low: level.ratio_low,
        high: level.ratio_high,
        limit: ratio,
        seen: level.second.clusters,
        unknown: level.second.unknown as f64,
        samples: None,
        is_counted: true,
    });
    checked.level_ns = Some(level.level_ns);
    checked
}

fn verdict(level: &LevelComparison, ratio: f64) -> (TestVerdict, Option<Undecided>) {
    let undecided = |why| (TestVerdict::Unknown, Some(why));
    match level.change {
        Change::Unclear(Unclear::FewRecordings) => undecided(Undecided::FewRecordings),
        Change::Unclear(Unclear::Lost | Unclear::NotKept) => undecided(Undecided::NotKept),
        Change::Unclear(Unclear::PairsDisagree) => undecided(Undecided::Varies),
        Change::Unclear(Unclear::FixedOrder) => undecided(Undecided::FixedOrder),
        Change::Unclear(Unclear::TooOften) => undecided(Undecided::TooOften),
        Change::Worse if level.ratio_low > ratio => (TestVerdict::Fail, None),
        Change::Better
        | Change::Equivalent
        | Change::Worse
        | Change::Unclear(Unclear::Never | Unclear::TooFew | Unclear::Varies | Unclear::Chance) => {
            match level.ratio_high {
                Some(high) if high <= ratio => (TestVerdict::Pass, None),
                _ if level.change == Change::Unclear(Unclear::Varies) => {
                    undecided(Undecided::Varies)
                }
                _ => undecided(Undecided::TooShort),
            }
        }
    }
}
