//! Computes the verdicts from recordings and requirements.

use laggard_model::Nanos;
use laggard_record::Recording;

use super::checking::{CheckError, CheckQuestion, Checking};
use super::handlers::HandlerSort;
use super::requirement::longest_stall;
use super::rows::WantedShare;
use super::{
    CHECK_SCHEMA, CheckLook, CheckReport, CheckedRow, Requirement, RequirementRow, TestVerdict,
    Undecided, WhenUnclear, baseline,
};
use crate::began::began;
use crate::load::{Load, have_no_work, loads_for_shares, open};
use crate::qos::runs;
use crate::scan::Ask;

/// Checks recordings against requirements.
///
/// # Errors
/// When a recording cannot be read, or does not have the data that a requirement needs.
pub fn check(question: &CheckQuestion) -> Result<CheckReport, CheckError> {
    let opened = open(&question.recordings)?;
    let is_demand = |row: &RequirementRow| matches!(row.requirement, Requirement::Mttf { .. });
    if question.requirements.rows.iter().any(is_demand) {
        have_no_work(&opened)?;
    }
    let first = opened.iter().map(Recording::manifest);
    let first = first.min_by(|a, b| began(a).cmp(&began(b)));
    let loads = loads_for_shares(&Ask {
        dirs: question.recordings.clone(),
        threads: question.threads,
    })?;
    let checking = Checking {
        question,
        loads: &loads,
    };
    let mut rows = Vec::new();
    for row in &question.requirements.rows {
        for load in checking.chosen(row)? {
            rows.extend(of_row(&checking, row, load)?);
        }
    }
    let verdict = rows.iter().map(|row| row.verdict).max();
    let verdict = verdict.unwrap_or(TestVerdict::Unknown);
    let may_be_unclear = question.requirements.when_unclear == WhenUnclear::Warn;
    let is_unclear = |row: &CheckedRow| row.why.as_ref().is_none_or(Undecided::is_of_length);
    let passes = match verdict {
        TestVerdict::Pass => true,
        TestVerdict::Unknown => may_be_unclear && rows.iter().all(is_unclear),
        TestVerdict::Fail => false,
    };
    let confidence = question.requirements.confidence;
    let state = |look: &CheckLook| look.state(confidence, verdict, &rows);
    let until_decided = question.look.as_ref().map(state);
    let duration = loads.iter().flat_map(|load| &load.runs);
    Ok(CheckReport {
        schema: CHECK_SCHEMA,
        file: question.requirements.file.display().to_string(),
        confidence,
        when_unclear: question.requirements.when_unclear,
        verdict,
        passes,
        host: first.map_or_else(String::new, |manifest| manifest.host.node.clone()),
        recorded_at: first.map_or_else(String::new, |manifest| manifest.clock.start_wall.clone()),
        is_windows: first.is_some_and(|manifest| manifest.host.is_windows()),
        recordings: loads.iter().flat_map(Load::paths).collect(),
        duration_ns: duration.fold(Nanos::ZERO, |sum, run| sum + run.duration),
        until_decided,
        rows,
        notes: loads.iter().flat_map(Load::notes).collect(),
    })
}

/// Checks a requirement on the recordings under one load.
fn of_row(
    checking: &Checking<'_>,
    row: &RequirementRow,
    load: &Load,
) -> Result<Vec<CheckedRow>, CheckError> {
    if !matches!(row.requirement, Requirement::Share { .. }) {
        load.has_rates()?;
    }
    match &row.requirement {
        Requirement::Share {
            at_most_ns,
            share,
            longest_ns,
        } => {
            let wanted = WantedShare {
                at_most: *at_most_ns,
                share: *share,
                longest: longest_stall(*at_most_ns, *longest_ns),
            };
            let lines = checking.lines(row, load, row.service)?.into_iter();
            lines
                .map(|line| checking.share(row, load, line, &wanted))
                .collect()
        }
        Requirement::Level { level_ns, per_ns } => checking
            .lines(row, load, row.service)?
            .into_iter()
            .map(|line| checking.level(row, load, line, (*level_ns, *per_ns)))
            .collect(),
        Requirement::Mttf {
            application,
            mttf_ns,
        } => {
            let service = row.service.or(application.service);
            let lines = checking.lines(row, load, row.service)?;
            let Some(line) = runs(service, lines) else {
                return Err(checking.not_measured(row, load, service));
            };
            Ok(vec![checking.mttf(
                row,
                load,
                line,
                (application, *mttf_ns),
            )?])
        }
        Requirement::NotWorseThan { ratio } => baseline::rows(checking, row, load, *ratio),
        Requirement::LongestSoftirq { at_most_ns, per_ns } => {
            let handler = (HandlerSort::Softirq, *at_most_ns, *per_ns);
            Ok(vec![checking.longest(row, load, handler)?])
        }
        Requirement::LongestIrq { at_most_ns, per_ns } => {
            let handler = (HandlerSort::Irq, *at_most_ns, *per_ns);
            Ok(vec![checking.longest(row, load, handler)?])
        }
    }
}
