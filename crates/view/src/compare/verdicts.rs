//! Verdicts of a comparison, and the reasons of unclear ones.

use laggard_answer::compare::{Change, CompareReport, LevelComparison, ServiceComparison, Unclear};
use laggard_model::name::series_words;

use crate::doc::{Block, Cell, Column, Detail, Document, Table};
use crate::phrase::compare as phrase;
use crate::phrase::plural;

/// Limits of a short answer.
#[derive(Clone, Copy)]
pub(super) struct Max {
    /// Rows, without those that are worse or better.
    pub(super) rows: usize,
    /// Rows that are worse or better.
    pub(super) differing: usize,
    /// Reasons for unclear verdicts.
    pub(super) reasons: usize,
    /// Remarks on the whole answer.
    pub(super) remarks: usize,
}

impl Max {
    pub(super) const NONE: Self = Self {
        rows: usize::MAX,
        differing: usize::MAX,
        reasons: usize::MAX,
        remarks: usize::MAX,
    };
}

pub(super) fn name(service: &ServiceComparison) -> String {
    series_words(service.service, service.route)
}

/// Returns the levels, worse ones first, each with its series.
pub(super) fn levels(report: &CompareReport) -> Vec<(&ServiceComparison, &LevelComparison)> {
    let services = report.services.iter();
    let mut levels: Vec<_> = services
        .flat_map(|service| service.levels.iter().map(move |level| (service, level)))
        .collect();
    levels.sort_by(|(_, a), (_, b)| {
        let order = rank(a.change).cmp(&rank(b.change));
        order.then(distance(b).total_cmp(&distance(a)))
    });
    levels
}

const fn rank(change: Change) -> u8 {
    match change {
        Change::Worse => 0,
        Change::Better => 1,
        Change::Unclear(_) => 2,
        Change::Equivalent => 3,
    }
}

/// Returns the factor between the interval of a clear verdict and the same rate; for an unclear
/// verdict, the logarithm of the ratio.
fn distance(level: &LevelComparison) -> f64 {
    match level.change {
        Change::Better => 1.0 / level.ratio_high.unwrap_or(1.0),
        Change::Worse => level.ratio_low,
        Change::Unclear(_) => level.ratio.map_or(0.0, |ratio| ratio.ln().abs()),
        Change::Equivalent => 0.0,
    }
}

/// Adds the verdicts as a table, and the reasons of unclear ones. A short table leaves out
/// rows that are neither worse nor better if there are many.
pub(super) fn verdicts(document: &mut Document, report: &CompareReport, detail: Detail, max: Max) {
    let levels = levels(report);
    if levels.is_empty() {
        return document.paragraph(
            "Too few wakeups to choose a level; set one with `--at`, or record for longer.",
        );
    }
    let mut table = Table::new([
        Column::name("verdict"),
        Column::sentence("series"),
        Column::number("level"),
        Column::number("A / B every"),
        Column::number(format!("B / A ({} %)", phrase::confidence(report))).starting_part(),
    ])
    .keys(2);
    let mut hidden: Vec<&LevelComparison> = Vec::new();
    for (number, (service, level)) in levels.iter().enumerate() {
        let differs = matches!(level.change, Change::Worse | Change::Better);
        if number >= (if differs { max.differing } else { max.rows }) {
            hidden.push(level);
            continue;
        }
        let word = phrase::verdict(level.change);
        table.row([
            Cell::Status(phrase::tone(level.change), word.into()),
            name(service).into(),
            Cell::Time(level.level_ns),
            format!(
                "{} / {}",
                phrase::every(&level.first),
                phrase::every(&level.second)
            )
            .into(),
            phrase::ratio(level),
        ]);
    }
    let hidden: Vec<Change> = hidden.iter().map(|level| level.change).collect();
    if !hidden.is_empty() {
        let same = hidden
            .iter()
            .filter(|change| **change == Change::Equivalent)
            .count();
        let differ = hidden
            .iter()
            .filter(|change| matches!(change, Change::Worse | Change::Better))
            .count();
        let differing = match differ {
            0 => String::new(),
            differ => format!(" {differ} worse or better,"),
        };
        let rows = plural(hidden.len() as u64, "row");
        let unclear = hidden.len() - same - differ;
        table.note(format!(
            "{rows} more,{differing} {unclear} unclear and {same} the same: `--all`"
        ));
    }
    table.note(format!(
        "every: mean time between runs of late wakeups on a CPU; same: within {} times",
        report.equal
    ));
    let mut levels = levels;
    if detail == Detail::Short && !report.is_enough {
        // The first lines state it once for all series.
        levels.retain(|(_, level)| level.change != Change::Unclear(Unclear::FewRecordings));
    }
    let mut reasons = reasons(&levels, !hidden.is_empty());
    let hidden = reasons.split_off(reasons.len().min(max.reasons));
    table.notes.extend(reasons);
    if !hidden.is_empty() {
        let more = plural(hidden.len() as u64, "reason");
        table.note(format!("{more} more: `--all`"));
    }
    table.notes.extend(phrase::needed_legend(
        report,
        levels.iter().map(|(_, level)| *level),
    ));
    if detail == Detail::Full {
        table.notes.extend(ten_times(&levels));
    }
    document.push(Block::Table(table));
}

/// Lists series whose whole interval is beyond a factor of ten.
fn ten_times(levels: &[(&ServiceComparison, &LevelComparison)]) -> Option<String> {
    let ten_times: Vec<String> = levels
        .iter()
        .filter(|(_, level)| level.is_ten_times)
        .map(|(service, level)| format!("{} ({})", name(service), phrase::verdict(level.change)))
        .collect();
    (!ten_times.is_empty()).then(|| format!("At least 10 times: {}", ten_times.join(", ")))
}

/// States the reasons of unclear verdicts, and lists series with the same rate if
/// `lists_same`. Series with the same reason share a line.
fn reasons(levels: &[(&ServiceComparison, &LevelComparison)], lists_same: bool) -> Vec<String> {
    let mut reasons: Vec<(Change, Vec<String>)> = Vec::new();
    for (service, level) in levels {
        let is_listed = match level.change {
            Change::Worse | Change::Better => false,
            Change::Equivalent => lists_same,
            Change::Unclear(_) => true,
        };
        if !is_listed {
            continue;
        }
        let needed = phrase::needed(level);
        let needed = needed.map_or_else(String::new, |needed| format!(" ({needed})"));
        let series = format!("{}{needed}", name(service));
        match reasons.iter_mut().find(|(known, _)| *known == level.change) {
            Some((_, known)) if !known.contains(&series) => known.push(series),
            Some(_) => {}
            None => reasons.push((level.change, vec![series])),
        }
    }
    reasons
        .into_iter()
        .map(|(change, series)| {
            let (word, series) = (phrase::verdict(change), series.join(", "));
            match change {
                Change::Unclear(why) => format!("{word}: {series}: {}", phrase::reason(why)),
                Change::Worse | Change::Better | Change::Equivalent => {
                    format!("{word}: {series}")
                }
            }
        })
        .collect()
}
