//! `laggard compare`: whether wakeups are late more often after a change.

mod series;

use std::cell::RefCell;

use laggard_answer::compare::{
    Change, CompareReport, LatencyCounts, LevelComparison, MissesComparison, QuantileComparison,
    ServiceComparison, TailComparison, TailView,
};
use laggard_answer::qos::MissFigures;
use laggard_model::name::series_words;
use laggard_model::text::{listed, percent};
use laggard_model::{Histogram, Nanos};

pub use series::document as series;

use crate::doc::{
    self, Block, Cell, Column, Detail, Document, Figure, Reason, SCREEN_LINES, Table, code,
    first_that_fits, quoted,
};
use crate::notes::shared;
use crate::phrase::compare as phrase;
use crate::phrase::plural;
use crate::picture::{Picture, PictureError, Style, svg};

/// Number of rows in a short answer, as far as one screen has room. Rows that are worse or
/// better are added.
const ROWS: std::ops::RangeInclusive<usize> = 2..=6;
/// Numbers of reasons for unclear verdicts, fewer if a screen has less room.
const REASONS: [usize; 3] = [usize::MAX, 2, 0];
/// Numbers of remarks, as in [`REASONS`].
const REMARKS: [usize; 2] = [usize::MAX, 2];
/// Number of rows that are worse or better, if a screen has no room for all.
const DIFFERING: usize = 6;
/// Size of a figure in pixels.
const FIGURE: Style = Style {
    width: 720,
    height: 440,
    dark: false,
};

/// Describes the comparison: the verdict on each series, causes and conditions that differ.
/// `Full` adds quantiles, tails, the counts behind the verdicts, and figures.
pub fn document(report: &CompareReport, detail: Detail) -> Document {
    if detail == Detail::Full {
        return limited(report, detail, Max::NONE);
    }
    // Further rows explain less than the reason of each unclear verdict.
    let limits = REMARKS.into_iter().flat_map(|remarks| {
        REASONS.into_iter().flat_map(move |reasons| {
            ROWS.rev().map(move |rows| Max {
                rows,
                differing: usize::MAX,
                reasons,
                remarks,
            })
        })
    });
    let least = Max {
        rows: 0,
        differing: DIFFERING,
        reasons: 0,
        remarks: 1,
    };
    let limits = limits.chain([least]);
    first_that_fits(SCREEN_LINES, limits.map(|max| limited(report, detail, max)))
}

/// Limits of a short answer.
#[derive(Clone, Copy)]
struct Max {
    /// Rows, without those that are worse or better.
    rows: usize,
    /// Rows that are worse or better.
    differing: usize,
    /// Reasons for unclear verdicts.
    reasons: usize,
    /// Remarks on the whole answer.
    remarks: usize,
}

impl Max {
    const NONE: Self = Self {
        rows: usize::MAX,
        differing: usize::MAX,
        reasons: usize::MAX,
        remarks: usize::MAX,
    };
}

fn limited(report: &CompareReport, detail: Detail, max: Max) -> Document {
    let mut document = Document::new("B compared with A");
    let sides = [("A", &report.first), ("B", &report.second)];
    let mut lines: Vec<String> = sides
        .iter()
        .map(|(letter, side)| format!("{letter}: {}", phrase::side(side)))
        .collect();
    lines.extend(report.changed.as_ref().map(phrase::changed));
    let warnings = report.notes.iter().filter(|note| note.is_warning());
    lines.extend(shared(warnings, recordings(report)));
    document.lines(lines);
    let is_full = detail == Detail::Full;
    match &report.rows {
        Some(rows) => {
            let is_enough = report.is_enough && report.order.repeats_after.is_none();
            document.lines(phrase::rows(rows, is_enough));
            push_table(&mut document, quantiles(report, is_enough));
        }
        None => verdicts(&mut document, report, detail, max),
    }
    push_table(&mut document, misses(report));
    let mut lines = if is_full {
        causes(&mut document, report);
        Vec::new()
    } else {
        phrase::causes(report)
    };
    let mut remarks = remarks(report);
    let hidden = remarks.split_off(remarks.len().min(max.remarks));
    lines.extend(remarks);
    if !hidden.is_empty() {
        let more = plural(hidden.len() as u64, "remark");
        lines.push(format!("{more} more: `--all`"));
    }
    if is_full {
        document.lines(std::mem::take(&mut lines));
        conditions(&mut document, report);
        if report.rows.is_none() {
            push_table(&mut document, counts(report));
            push_table(&mut document, quantiles(report, true));
        }
        tails(&mut document, report);
        figures(&mut document, report);
        document.notes("Warnings", shared(&report.notes, recordings(report)));
    } else {
        lines.push(phrase::conditions(report));
    }
    let looks = report.looks.as_ref();
    lines.extend(looks.map_or_else(Vec::new, |looks| phrase::looks(report, looks)));
    lines.extend(report.work.as_ref().map(phrase::work));
    lines.extend(phrase::seed(&report.order));
    if !is_full {
        lines.push(next(report));
    }
    document.lines(lines);
    document
}

/// Renders the comparison as a page for a browser.
///
/// # Errors
/// When a figure cannot be drawn.
pub fn page(report: &CompareReport) -> Result<String, PictureError> {
    let error = RefCell::new(None);
    let draw = |figure: &Figure| {
        let series = |service: &&ServiceComparison| name(service) == figure.id;
        let service = report.services.iter().find(series)?;
        match svg(Picture::Compared { report, service }, FIGURE) {
            Ok(svg) => Some(svg),
            // Neither side has a sample.
            Err(PictureError::Nothing(_)) => None,
            Err(err) => {
                error.borrow_mut().get_or_insert(err);
                None
            }
        }
    };
    let page = doc::html(&document(report, Detail::Full), "laggard compare", &draw);
    error.into_inner().map_or(Ok(page), Err)
}

/// Describes an evaluation between rounds in one line, for the progress of a trial.
pub fn progress(report: &CompareReport, after: usize, rounds: usize) -> String {
    let round = format!("after {after} of {rounds} rounds");
    if report.is_decided() {
        return format!("{round}, every series is decided; recording ends");
    }
    let verdicts: Vec<String> = report
        .verdicts(after)
        .iter()
        .map(phrase::earlier_verdict)
        .collect();
    let mut open: Vec<String> = report
        .undecided()
        .into_iter()
        .map(|(service, route)| series_words(service, route))
        .collect();
    open.dedup();
    let known = if verdicts.is_empty() {
        String::new()
    } else {
        format!("{}; ", verdicts.join(", "))
    };
    format!(
        "{round}: {known}undecided: {}; recording continues",
        open.join(", ")
    )
}

fn recordings(report: &CompareReport) -> usize {
    report.first.recordings.len() + report.second.recordings.len()
}

fn name(service: &ServiceComparison) -> String {
    series_words(service.service, service.route)
}

fn push_table(document: &mut Document, table: Table) {
    if !table.rows.is_empty() {
        document.push(Block::Table(table));
    }
}

/// Returns the levels, worse ones first, each with its series.
fn levels(report: &CompareReport) -> Vec<(&ServiceComparison, &LevelComparison)> {
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
fn verdicts(document: &mut Document, report: &CompareReport, detail: Detail, max: Max) {
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

/// States limits of the whole answer.
fn remarks(report: &CompareReport) -> Vec<String> {
    let levels = || report.services.iter().flat_map(|service| &service.levels);
    let is_clear = |level: &LevelComparison| !matches!(level.change, Change::Unclear(_));
    let differs = |level: &LevelComparison| matches!(level.change, Change::Worse | Change::Better);
    let has_unclear = levels().any(|level| !is_clear(level));
    let no_difference =
        report.is_enough && has_unclear && !levels().any(differs) && report.rows.is_none();
    let mut lines: Vec<String> = phrase::too_few_recordings(report).into_iter().collect();
    if no_difference {
        lines.push("No difference is significant. This does not prove that there is none.".into());
    }
    if report.is_enough {
        lines.extend(phrase::fixed_order(&report.order));
    }
    lines.extend(phrase::trends(report));
    lines.extend(report.causes_unknown.as_ref().map(phrase::causes_unknown));
    lines
}

/// Returns the evidence behind each verdict.
fn counts(report: &CompareReport) -> Table {
    let mut table = Table::new([
        Column::name("series"),
        Column::number("level"),
        Column::number("from"),
        Column::number("A runs"),
        Column::number("A late"),
        Column::number("A one is"),
        Column::number("B runs"),
        Column::number("B late"),
        Column::number("B one is"),
        Column::number("p"),
        Column::number("p (all)"),
        Column::number("between"),
    ])
    .keys(2)
    .caption("Evidence");
    for (service, level) in levels(report) {
        let from = level.share.map(|share| format!("p{}", percent(share)));
        let side = |side: &laggard_answer::compare::LateCount| {
            let share = side.later as f64 / (side.samples as f64).max(1.0);
            [
                Cell::MeanCount(side.clusters),
                format!(
                    "{} of {}",
                    Cell::Count(side.later),
                    Cell::Count(side.samples)
                )
                .into(),
                Cell::Ratio(side.dispersion),
                Cell::Share(share),
            ]
        };
        let [runs_a, late_a, one_a, _] = side(&level.first);
        let [runs_b, late_b, one_b, _] = side(&level.second);
        table.row([
            name(service).into(),
            Cell::Time(level.level_ns),
            from.unwrap_or_else(|| "--at".into()).into(),
            runs_a,
            late_a,
            one_a,
            runs_b,
            late_b,
            one_b,
            phrase::probability(level.p).into(),
            phrase::probability(level.p_adjusted).into(),
            Cell::Ratio(level.between),
        ]);
    }
    table.note("runs: runs of late wakeups. late: late wakeups. one is: number of runs that count as one independent event. p (all): adjusted for all comparisons. between: variation between recordings of one side, divided by the variation that the events explain.");
    table
}

fn misses(report: &CompareReport) -> Table {
    let mut table = Table::new([
        Column::name("series"),
        Column::number("A: xruns (95 % CI)"),
        Column::number("B: xruns (95 % CI)"),
    ]);
    let Some(application) = &report.application else {
        return table;
    };
    table.caption = Some(format!(
        "{}: {} buffers of {}, slack {}; mean time between xruns as in `laggard qos`",
        code(&application.name),
        application.buffers,
        Cell::Time(application.buffer_ns),
        Cell::Time(application.slack_ns),
    ));
    for service in &report.services {
        if let Some(MissesComparison { first, second }) = &service.misses {
            table.row([name(service).into(), mean_time(first), mean_time(second)]);
        }
    }
    table
}

/// Returns a mean time between xruns with its interval.
fn mean_time(figures: &MissFigures) -> Cell {
    let low = Cell::MeanTime(figures.mttf_low_ns);
    let high = figures.mttf_high_ns.map(Cell::MeanTime);
    match (figures.mttf_ns.map(Cell::MeanTime), high) {
        (Some(mean), Some(high)) => Cell::estimate(mean, low, high),
        (None, Some(high)) => Cell::Interval(Box::new(low), Box::new(high)),
        (_, None) => Cell::AtLeast(Box::new(low)),
    }
}

/// Returns the quantiles and the maximum of each series. `has_verdicts`: an interval that
/// excludes 1 is a difference.
fn quantiles(report: &CompareReport, has_verdicts: bool) -> Table {
    let mut table = Table::new([
        Column::name("series"),
        Column::name("quantile"),
        Column::number("A"),
        Column::number("B"),
        Column::number("B / A (95 %)"),
    ])
    .keys(2);
    for service in &report.services {
        for quantile in &service.quantiles {
            let is_rows = report.rows.is_some() && has_verdicts;
            table.row([
                name(service).into(),
                phrase::quantile(quantile.share).into(),
                Cell::Time(Nanos::from_f64(quantile.first_ns)),
                Cell::Time(Nanos::from_f64(quantile.second_ns)),
                quantile_ratio(quantile, is_rows),
            ]);
        }
        let [first, second] = [&service.first, &service.second].map(max);
        if let (Some(first), Some(second)) = (first, second) {
            let ratio = Cell::Unknown(Reason::NotApplicable);
            table.row([name(service).into(), "max".into(), first, second, ratio]);
        }
    }
    if report.rows.is_some() && !table.rows.is_empty() {
        let differs =
            |quantile: &QuantileComparison| quantile.ratio_low > 1.0 || quantile.ratio_high < 1.0;
        let mut quantiles = report
            .services
            .iter()
            .flat_map(|service| &service.quantiles);
        if quantiles.clone().next().is_none() {
            table.note("No quantile can be compared; record for longer.");
        } else if has_verdicts && !quantiles.any(differs) {
            table.note("No difference is significant. This does not prove that there is none.");
        }
    }
    table
}

fn quantile_ratio(quantile: &QuantileComparison, has_verdict: bool) -> Cell {
    let [ratio, low, high] =
        [quantile.ratio, quantile.ratio_low, quantile.ratio_high].map(phrase::time_ratio);
    let text = format!("{ratio} ({low} to {high})");
    let change = if quantile.ratio_low > 1.0 {
        Change::Worse
    } else if quantile.ratio_high < 1.0 {
        Change::Better
    } else {
        Change::Equivalent
    };
    if has_verdict {
        Cell::Status(phrase::tone(change), text)
    } else {
        text.into()
    }
}

/// Returns the maximum of one side, at most 1.09 % too high; `None` without samples.
fn max(counts: &LatencyCounts) -> Option<Cell> {
    let (bucket, _) = counts.buckets.last()?;
    let edge = |bucket: usize| {
        // Rows that came early have latency 0.
        let edge = match bucket {
            0 => Nanos::ZERO,
            _ => Histogram::upper_edge(bucket),
        };
        Cell::Time(edge)
    };
    Some(if counts.is_at_least {
        // The wait was in this bucket when measuring ended.
        Cell::AtLeast(Box::new(edge(bucket.saturating_sub(1))))
    } else {
        edge(*bucket)
    })
}

/// Adds the tails, and why some are not compared.
fn tails(document: &mut Document, report: &CompareReport) {
    let mut table = Table::new([
        Column::name("series"),
        Column::number("threshold"),
        Column::number("A peaks"),
        Column::number("shape"),
        Column::number("scale"),
        Column::number("B peaks"),
        Column::number("shape"),
        Column::number("scale"),
        Column::number("p"),
        Column::number("p (all)"),
    ])
    .keys(2)
    .caption("Latency of late wakeups, independent of their rate");
    let mut unknown: Vec<(String, Vec<String>)> = Vec::new();
    for service in &report.services {
        if let Some(tail) = &service.tail {
            table.row(tail_row(name(service), tail));
        } else if let Some(why) = &service.tail_unknown {
            let why = phrase::tail_unknown(why);
            match unknown.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(name(service)),
                None => unknown.push((why, vec![name(service)])),
            }
        }
    }
    table.note("peaks: maxima of runs of late wakeups. p: probability of such a difference between tails of the same shape and scale. p (all): adjusted for all tails.");
    push_table(document, table);
    let lines = unknown.into_iter();
    let lines =
        lines.map(|(why, names)| format!("Tails of {} are not compared: {why}.", listed(&names)));
    document.lines(lines.collect());
}

fn tail_row(name: String, tail: &TailComparison) -> Vec<Cell> {
    let side = |side: &TailView| {
        [
            Cell::Count(side.peaks as u64),
            format!("{:.2}", side.shape).into(),
            Cell::Time(Nanos::from_f64(side.scale_ns)),
        ]
    };
    let mut row = vec![name.into(), Cell::Time(tail.threshold_ns)];
    row.extend(side(&tail.first));
    row.extend(side(&tail.second));
    row.extend([tail.p, tail.p_adjusted].map(|p| Cell::Text(phrase::probability(p))));
    row
}

fn causes(document: &mut Document, report: &CompareReport) {
    if !report.causes.is_empty() {
        document.heading("Causes of late wakeups in B");
        document.push(Block::List(
            report.causes.iter().map(phrase::cause_change).collect(),
        ));
    }
}

fn conditions(document: &mut Document, report: &CompareReport) {
    if report.differing.is_empty() {
        return document.lines(vec![phrase::conditions(report)]);
    }
    let mut table = Table::new([
        Column::name("differs"),
        Column::sentence("A"),
        Column::sentence("B"),
    ]);
    for difference in &report.differing {
        table.row([
            difference.what.as_str().into(),
            difference.first.join(" / ").into(),
            difference.second.join(" / ").into(),
        ]);
    }
    document.push(Block::Table(table));
}

/// Adds a place for the distributions of each series (OSDI'99 Fig. 4 and 5).
fn figures(document: &mut Document, report: &CompareReport) {
    for service in &report.services {
        document.push(Block::Figure(Figure {
            id: name(service),
            caption: format!("Latencies of {} in A and B", name(service)),
        }));
    }
}

/// States the next step.
fn next(report: &CompareReport) -> String {
    let all = match report
        .notes
        .iter()
        .filter(|note| !note.is_warning())
        .count()
    {
        0 => "figures behind the verdicts: `--all`".to_owned(),
        count => format!(
            "figures behind the verdicts and {}: `--all`",
            plural(count as u64, "warning")
        ),
    };
    let levels = levels(report);
    let worse = levels
        .first()
        .filter(|(_, level)| level.change == Change::Worse);
    let why = worse.zip(report.second.recordings.first());
    why.map_or_else(
        || format!("Next: {all}"),
        |((service, _), recording)| {
            let command = format!(
                "laggard why {} --service {}",
                quoted(recording),
                service.service
            );
            format!("Next: {}; {all}", code(&command))
        },
    )
}
