//! Evidence behind the verdicts: counts, quantiles, tails, causes and conditions.

use laggard_answer::compare::{
    Change, CompareReport, LatencyCounts, MissesComparison, QuantileComparison, TailComparison,
    TailView,
};
use laggard_answer::qos::MissFigures;
use laggard_model::text::{listed, percent};
use laggard_model::{Histogram, Nanos};

use super::verdicts::{levels, name};
use crate::doc::{Block, Cell, Column, Document, Figure, Reason, Table, code};
use crate::phrase::compare as phrase;

/// Adds the table unless it is empty.
pub(super) fn push_table(document: &mut Document, table: Table) {
    if !table.rows.is_empty() {
        document.push(Block::Table(table));
    }
}

/// Returns the evidence behind each verdict.
pub(super) fn counts(report: &CompareReport) -> Table {
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
                Cell::MeanCount(side.dispersion),
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
            Cell::MeanCount(level.between),
        ]);
    }
    table.note("runs: runs of late wakeups. late: late wakeups. one is: number of runs that count as one independent event. p (all): adjusted for all comparisons. between: variation between recordings of one side, divided by the variation that the events explain.");
    table
}

pub(super) fn misses(report: &CompareReport) -> Table {
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
pub(super) fn quantiles(report: &CompareReport, has_verdicts: bool) -> Table {
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
            table.note(
                "No difference is significant. This does not prove that the sides are equal.",
            );
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
pub(super) fn tails(document: &mut Document, report: &CompareReport) {
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

pub(super) fn causes(document: &mut Document, report: &CompareReport) {
    if !report.causes.is_empty() {
        document.heading("Causes of late wakeups in B");
        document.push(Block::List(
            report.causes.iter().map(phrase::cause_change).collect(),
        ));
    }
}

pub(super) fn conditions(document: &mut Document, report: &CompareReport) {
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
pub(super) fn figures(document: &mut Document, report: &CompareReport) {
    for service in &report.services {
        document.push(Block::Figure(Figure {
            id: name(service),
            caption: format!("Latencies of {} in A and B", name(service)),
        }));
    }
}
