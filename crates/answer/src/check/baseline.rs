//! Recordings against a baseline: late no more than so many times as often.

use std::path::PathBuf;

use laggard_model::{LoadLabel, Route, Service};
use laggard_record::Recording;

use super::checking::{CheckError, Checking};
use super::{CheckFigure, CheckVerdict, CheckedRow, FigureOf, RequirementRow, Undecided};
use super::{Wrong, sentences};
use crate::compare::{Change, LevelComparison, Question, ServiceComparison, Unclear, compare};
use crate::load::Load;

/// A service each, of the recordings of `load`.
pub(super) fn rows(
    checking: &Checking<'_>,
    row: &RequirementRow,
    load: &Load,
    ratio: f64,
) -> Result<Vec<CheckedRow>, CheckError> {
    let asked = checking.question;
    if asked.baseline.is_empty() {
        return Err(checking.wrong(row, Wrong::NoBaseline));
    }
    let mut first: Vec<PathBuf> = Vec::new();
    for dir in &asked.baseline {
        let one = Recording::open(dir)?;
        if LoadLabel::of(one.manifest().load.as_ref()) == load.label {
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
    // Each service could be called worse by chance: all of them no more often
    // than one requirement may be.
    let tests = services.len();
    let wrong = 1.0 - asked.confidence();
    let found = compare(&Question {
        first,
        second: load.runs.iter().map(|run| run.dir.clone()).collect(),
        application: None,
        levels: Vec::new(),
        service: row.service,
        equal: ratio,
        changed: None,
        load_may_differ: false,
        threads: asked.threads,
        confidence: 1.0 - 2.0 * wrong / tests as f64,
        look: None,
        seed: None,
    })?;
    let levels = found.services.iter();
    let levels = levels.flat_map(|one| one.levels.iter().map(move |level| (one, level)));
    Ok(levels
        .map(|(one, level)| of_level(checking, row, load, (one, level), ratio))
        .collect())
}

/// A service of which a part was recorded without the baseline's load.
fn of_another_load(
    checking: &Checking<'_>,
    row: &RequirementRow,
    load: &Load,
    line: (Service, Route),
) -> CheckedRow {
    let mut checked = checking.row(row, load, Some(line));
    checked.why = Some(Undecided::LoadEnded);
    checked.sentence = sentences::not_compared(&checked);
    checked
}

fn of_level(
    checking: &Checking<'_>,
    row: &RequirementRow,
    load: &Load,
    (one, level): (&ServiceComparison, &LevelComparison),
    ratio: f64,
) -> CheckedRow {
    let (verdict, why) = verdict(level, ratio);
    let mut checked = checking.row(row, load, Some((one.service, one.route)));
    checked.verdict = verdict;
    checked.why = why;
    // So long each side must be recorded.
    checked.needed_ns = level
        .needed_ns
        .filter(|_| verdict == CheckVerdict::NotDecided);
    checked.figure = Some(CheckFigure {
        of: FigureOf::Ratio,
        value: level.ratio,
        low: level.ratio_low,
        high: level.ratio_high,
        limit: ratio,
        seen: level.second.clusters,
        unknown: level.second.unknown as f64,
    });
    checked.sentence = sentences::ratio(&checked, level);
    checked
}

fn verdict(level: &LevelComparison, ratio: f64) -> (CheckVerdict, Option<Undecided>) {
    let undecided = |why| (CheckVerdict::NotDecided, Some(why));
    match level.change {
        Change::Unclear(Unclear::FewRecordings) => undecided(Undecided::FewRecordings),
        Change::Unclear(Unclear::Lost | Unclear::NotKept) => undecided(Undecided::NotKept),
        Change::Unclear(Unclear::PairsDisagree) => undecided(Undecided::Varies),
        Change::Unclear(Unclear::FixedOrder) => undecided(Undecided::FixedOrder),
        Change::Unclear(Unclear::TooOften) => undecided(Undecided::TooOften),
        Change::Worse if level.ratio_low > ratio => (CheckVerdict::Broken, None),
        Change::Better
        | Change::Equivalent
        | Change::Worse
        | Change::Unclear(Unclear::Never | Unclear::TooFew | Unclear::Varies | Unclear::Chance) => {
            match level.ratio_high {
                Some(high) if high <= ratio => (CheckVerdict::Met, None),
                _ if level.change == Change::Unclear(Unclear::Varies) => {
                    undecided(Undecided::Varies)
                }
                _ => undecided(Undecided::TooShort),
            }
        }
    }
}
