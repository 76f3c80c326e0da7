//! Figures of `laggard show`: latencies of each series, stages on the way, losses and
//! overhead.

use std::collections::BTreeMap;

use laggard_answer::contexts::{ContextRow, ContextsReport};
use laggard_answer::show::{Figures, QUANTILES, RecordingReport, ServiceRow, Share, StageRow};
use laggard_model::name::series_words;
use laggard_model::text::{Unit, percent};
use laggard_model::{LoadLabel, Nanos, RowsOf, whole};

use crate::doc::{
    BarAxis, Block, Cell, Column, Detail, Document, Reason, SCREEN_LINES, Table, Verdict,
    first_that_fits,
};
use crate::phrase::show as phrase;
use crate::phrase::{overview, trust, warning};
use crate::text::Tone;

/// Number of series that one screen has.
const SERIES: std::ops::RangeInclusive<usize> = 2..=16;
/// Numbers of missing parts that one screen lists, if it has no room for all.
const MISSING: [usize; 3] = [2, 1, 0];
const HISTOGRAM_COLUMNS: usize = 80;

/// Describes the figures of a recording. `Full` adds stages, histograms, losses, overhead and
/// warnings.
pub fn document(report: &RecordingReport, detail: Detail) -> Document {
    limited(report, detail, usize::MAX)
}

/// Describes the figures with at most this number of missing parts. It counts the others.
fn limited(report: &RecordingReport, detail: Detail, max_missing: usize) -> Document {
    let mut document = head(report, detail, max_missing);
    document.heading(phrase::latency(report));
    document.push(Block::Table(services(report)));
    if detail == Detail::Short {
        return document;
    }
    if let Some(contexts) = &report.contexts {
        document.heading(phrase::contexts_title(contexts));
        document.push(Block::Table(self::contexts(contexts)));
        document.lines(phrase::contexts(contexts));
    }
    push_stages(&mut document, report);
    push_run_delays(&mut document, report);
    let histograms = histograms(report);
    if !histograms.is_empty() {
        document.heading("Histograms of the latency (both axes logarithmic)");
        document.push(Block::Preformatted(histograms));
    }
    document.heading("Losses and overhead");
    let mut lines = vec![phrase::losses(report)];
    lines.extend(phrase::overhead(report));
    document.lines(lines);
    let missing = report.shortfalls.iter().map(trust::missing);
    document.notes("Missing", missing.collect());
    let warnings = report.caveats.iter().map(warning);
    let warnings = warnings.chain(report.doubts.iter().map(trust::reason));
    document.notes("Warnings", warnings.collect());
    document
}

/// Describes the figures on one screen, with as many series as it has room for. Of more, it
/// has those with the largest maximum.
pub fn screen(report: &RecordingReport) -> Document {
    let total = report.services.len();
    let most = total.min(*SERIES.end());
    let least = most.min(*SERIES.start());
    let counts = (least..=most).rev();
    let limits = [(most, false, usize::MAX)].into_iter();
    let limits = limits.chain(counts.map(|count| (count, true, usize::MAX)));
    let limits = limits.chain(MISSING.map(|max_missing| (least, true, max_missing)));
    let documents = limits.map(|(count, is_brief, max_missing)| {
        let report = with_largest(report, count);
        let mut document = limited(&report, Detail::Short, max_missing);
        if is_brief {
            for block in &mut document.blocks {
                if let Block::Table(table) = block {
                    table.notes.retain(|note| !phrase::is_legend(note));
                }
            }
        }
        if count < total {
            let more = Cell::Count((total - count) as u64);
            document.lines(vec![format!(
                "{more} more series with a smaller max: `--services`"
            )]);
        }
        document
    });
    first_that_fits(SCREEN_LINES, documents)
}

/// Returns the report with this number of series, those with the largest maximum.
fn with_largest(report: &RecordingReport, count: usize) -> RecordingReport {
    let mut report = report.clone();
    let max = |row: &ServiceRow| row.latency.largest_ns;
    let mut limits: Vec<_> = report.services.iter().map(max).collect();
    limits.sort_unstable_by(|limit, next| next.cmp(limit));
    let mut left = count;
    if let Some(&limit) = limits.get(count.saturating_sub(1)) {
        report.services.retain(|row| {
            let is_shown = left > 0 && max(row) >= limit;
            left -= usize::from(is_shown);
            is_shown
        });
    }
    report
}

/// Describes the stages on the way to each service.
pub fn stages(report: &RecordingReport) -> Document {
    let mut document = head(report, Detail::Short, usize::MAX);
    push_stages(&mut document, report);
    if report.stages.is_empty() {
        document.paragraph("Stages were not recorded.");
    }
    push_run_delays(&mut document, report);
    document
}

/// Describes several recordings: a table per series with a row for each figure and a column
/// for each recording.
pub fn side_by_side(reports: &[RecordingReport]) -> Document {
    let mut document = Document::new("Latency");
    let number = |index: usize| format!("[{}]", index + 1);
    let recordings = reports.iter().enumerate();
    let recordings = recordings.map(|(index, report)| {
        let recording = phrase::recording(report);
        format!("{} {}: {recording}", number(index), report.path)
    });
    document.lines(recordings.collect());
    let doubts = reports.iter().enumerate().flat_map(|(index, report)| {
        let doubts = doubts(report).into_iter().chain(missing(report));
        doubts.map(move |doubt| Verdict {
            text: format!("{} {}", number(index), doubt.text),
            ..doubt
        })
    });
    let doubts: Vec<Verdict> = doubts.collect();
    if !doubts.is_empty() {
        document.push(Block::Verdicts(doubts));
    }
    let mut names: Vec<String> = Vec::new();
    for row in reports.iter().flat_map(|report| &report.services) {
        let name = series_words(row.service, row.route);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let numbers = (0..reports.len()).map(|index| Column::number(number(index)));
        let mut table = Table::new([Column::name(name.as_str())].into_iter().chain(numbers));
        let rows: Vec<Option<(&RecordingReport, &ServiceRow)>> = reports
            .iter()
            .map(|report| {
                let mut rows = report.services.iter();
                Some((
                    report,
                    rows.find(|row| series_words(row.service, row.route) == name)?,
                ))
            })
            .collect();
        let present = || rows.iter().flatten().map(|(_, row)| *row);
        let names = figure_names(present());
        for (at, name) in names.into_iter().enumerate() {
            let cells = rows.iter().map(|row| {
                row.map_or(Cell::Unknown(Reason::NotMeasured), |(report, row)| {
                    let figures = figure_cells(&row.latency, report);
                    let counts = [Cell::Count(row.latency.samples), Cell::Count(row.missed)];
                    let mut cells = counts.into_iter().chain(figures);
                    cells.nth(at).unwrap_or(Cell::Empty)
                })
            });
            table.row([name.into()].into_iter().chain(cells));
        }
        document.push(Block::Table(table));
    }
    document
}

/// Describes the recordings of each load side by side.
pub fn by_load(reports: &[RecordingReport]) -> Document {
    let mut loads: BTreeMap<LoadLabel, Vec<RecordingReport>> = BTreeMap::new();
    for report in reports {
        let load = LoadLabel::of(report.load.as_ref());
        loads.entry(load).or_default().push(report.clone());
    }
    let mut document = Document::new("Latency per load");
    for (load, reports) in loads {
        document.heading(format!("Load: {load}"));
        document.blocks.extend(side_by_side(&reports).blocks);
    }
    document
}

/// Adds the conditions and the doubts. `Full` lists the missing parts at its end.
fn head(report: &RecordingReport, detail: Detail, max_missing: usize) -> Document {
    let mut document = Document::new("Latency");
    document.heading(report.path.as_str());
    document.lines(phrase::conditions(report));
    let mut doubts = doubts(report);
    if detail == Detail::Short {
        doubts.extend(missing(report).take(max_missing));
        let more = report.shortfalls.len().saturating_sub(max_missing);
        if more > 0 {
            let (word, text) = match max_missing {
                0 => (
                    "WARNING",
                    format!("{more} missing or damaged parts (--all)"),
                ),
                _ => ("", format!("and {more} more (--all)")),
            };
            doubts.push(Verdict {
                tone: Tone::Open,
                word: word.into(),
                text,
            });
        }
    }
    if !doubts.is_empty() {
        document.push(Block::Verdicts(doubts));
    }
    document
}

fn doubts(report: &RecordingReport) -> Vec<Verdict> {
    let bad = |word: &str, text| Verdict {
        tone: Tone::Bad,
        word: word.into(),
        text,
    };
    let untrusted = trust::reasons(&report.trust);
    let untrusted = untrusted.map(|reasons| bad("NOT TRUSTWORTHY", reasons));
    let starved = overview::waiting(&report.waiting).map(|text| bad("STARVED", text));
    untrusted.into_iter().chain(starved).collect()
}

/// Warns of missing parts of the recording.
fn missing(report: &RecordingReport) -> impl Iterator<Item = Verdict> {
    report.shortfalls.iter().map(|shortfall| Verdict {
        tone: Tone::Open,
        word: "WARNING".into(),
        text: trust::missing(shortfall),
    })
}

fn services(report: &RecordingReport) -> Table {
    let by_cpu = report.services.iter().any(|row| row.cpu.is_some());
    let by_minute = report.services.iter().any(|row| row.minute.is_some());
    let mut columns = vec![Column::name("series")];
    columns.extend(by_minute.then(|| Column::number("minute")));
    columns.extend(by_cpu.then(|| Column::number("CPU")));
    let keys = columns.len();
    // A cycle has no expiry that could pass unserved.
    let has_missed = report.plan.rows != RowsOf::Activations;
    let names = figure_names(&report.services).into_iter();
    let names = names.filter(|name| has_missed || name != MISSED);
    columns.extend(names.map(|name| match name.as_str() {
        "median" => Column::number(name).starting_part(),
        _ => Column::number(name),
    }));
    columns.push(Column::number("max at"));
    let mut table = Table::new(columns).keys(keys);
    let number = |number: Option<u64>| number.map_or(Cell::Empty, Cell::Count);
    for row in &report.services {
        let mut cells = vec![series_words(row.service, row.route).into()];
        cells.extend(by_minute.then(|| number(row.minute)));
        cells.extend(by_cpu.then(|| number(row.cpu.map(|cpu| cpu.0.into()))));
        cells.push(Cell::Count(row.latency.samples));
        cells.extend(has_missed.then_some(Cell::Count(row.missed)));
        cells.extend(figure_cells(&row.latency, report));
        cells.push(
            row.latency
                .largest_at_ns
                .map_or(Cell::Unknown(Reason::NotApplicable), |time| {
                    format!("{:.3} s", time.as_secs_f64()).into()
                }),
        );
        table.row(cells);
    }
    for note in phrase::figures(report) {
        table.note(note);
    }
    table
}

/// Returns the name of the smallest latency. If wakeups were missed, it is the only figure
/// without them.
pub(crate) fn min_name<'a>(rows: impl IntoIterator<Item = &'a ServiceRow>) -> &'static str {
    if rows.into_iter().any(|row| row.missed > 0) {
        "min (served)"
    } else {
        "min"
    }
}

/// Name of the number of missed wakeups.
const MISSED: &str = "missed";

/// Returns the names of samples, missed, and those of [`figure_cells`].
fn figure_names<'a>(rows: impl IntoIterator<Item = &'a ServiceRow>) -> Vec<String> {
    let mut names: Vec<String> = ["samples", MISSED, min_name(rows), "mean", "std dev"]
        .map(Into::into)
        .into();
    names.extend(QUANTILES.map(quantile_name));
    names.push("max".into());
    names
}

fn quantile_name(q: f64) -> String {
    if q < 0.6 {
        "median".into()
    } else {
        format!("p{}", percent(q))
    }
}

/// Returns min, mean, standard deviation, quantiles and max.
fn figure_cells(figures: &Figures, report: &RecordingReport) -> Vec<Cell> {
    // Waits that came before they were due count as 0. Figures of them have no time.
    let has_early = report.plan.rows.early() > 0 && figures.min_ns == Some(Nanos::ZERO);
    let or_too_few = |time: Option<Nanos>| Cell::time_or(time, Reason::TooFewSamples);
    let rounded = |ns: Option<f64>| or_too_few(ns.map(|ns| Nanos::from_ns(whole(ns.round()))));
    let bound = |is_at_least: bool, cell: Cell| {
        if is_at_least && !matches!(cell, Cell::Unknown(_)) {
            Cell::AtLeast(Box::new(cell))
        } else {
            cell
        }
    };
    let mut cells = if has_early {
        let unknown = || Cell::Unknown(Reason::NotMeasured);
        vec![phrase::EARLY.into(), unknown(), unknown()]
    } else {
        vec![
            or_too_few(figures.min_ns),
            bound(figures.mean_is_at_least, rounded(figures.mean_ns)),
            rounded(figures.deviation_ns),
        ]
    };
    let quantiles = figures.quantiles.iter();
    cells.extend(quantiles.map(|share| {
        if has_early && share.ns.is_some_and(|ns| ns <= Nanos::from_ns(1)) {
            phrase::EARLY.into()
        } else {
            quantile(share)
        }
    }));
    cells.push(bound(
        figures.largest_is_at_least,
        or_too_few(figures.largest_ns),
    ));
    cells
}

pub(crate) fn quantile(share: &Share) -> Cell {
    let Some(time) = share.ns else {
        return Cell::Unknown(Reason::TooFewSamples);
    };
    let cell = Cell::Time(time);
    match share.low_ns {
        Some(low) if low != time => Cell::Interval(Box::new(Cell::Time(low)), Box::new(cell)),
        _ if share.is_at_least => Cell::AtLeast(Box::new(cell)),
        _ => cell,
    }
}

/// Adds a table for each series, with a row for each stage.
fn push_stages(document: &mut Document, report: &RecordingReport) {
    if report.stages.is_empty() {
        return;
    }
    document.heading("Stages (share: of the total latency of the series)");
    let series = |row: &StageRow| (row.service, row.route);
    for rows in report
        .stages
        .chunk_by(|row, next| series(row) == series(next))
    {
        let (service, route) = series(&rows[0]);
        let mut columns = vec![
            Column::name(series_words(service, route)),
            Column::number("share"),
            Column::number("samples"),
        ];
        columns.extend(["min", "mean", "std dev"].map(Column::number));
        columns.extend(QUANTILES.map(|q| match q {
            q if q < 0.6 => Column::number(quantile_name(q)).starting_part(),
            q => Column::number(quantile_name(q)),
        }));
        columns.push(Column::number("max"));
        let mut table = Table::new(columns);
        for row in rows {
            let share = row.share;
            let cells = [
                phrase::part(row).into(),
                share.map_or(Cell::Unknown(Reason::NotApplicable), Cell::Share),
                Cell::Count(row.time.samples),
            ];
            table.row(cells.into_iter().chain(figure_cells(&row.time, report)));
        }
        document.push(Block::Table(table));
    }
}

fn push_run_delays(document: &mut Document, report: &RecordingReport) {
    if report.run_delays.is_empty() {
        return;
    }
    document.heading("Run delay: time from runnable to running, by /proc/PID/schedstat");
    let mut table = Table::new([
        Column::name("series"),
        Column::number("switch-ins"),
        Column::number("mean"),
    ]);
    for row in &report.run_delays {
        table.row([
            series_words(row.service, row.route).into(),
            Cell::Count(row.switch_ins),
            Unit::Auto.write(row.mean_ns).into(),
        ]);
    }
    document.push(Block::Table(table));
}

fn contexts(report: &ContextsReport) -> Table {
    let mut table = Table::new([
        Column::name("context"),
        Column::name("service"),
        Column::number("samples"),
        Column::number("mean"),
        Column::number("median"),
        Column::number("p99"),
        Column::number("max"),
        Column::number("bumps every"),
    ])
    .keys(2);
    for row in &report.rows {
        table.row(context_cells(row));
    }
    table
}

fn context_cells(row: &ContextRow) -> [Cell; 8] {
    let or_too_few = |time: Option<Nanos>| Cell::time_or(time, Reason::TooFewSamples);
    let bound = |time: Option<Nanos>| match time {
        Some(time) if row.is_at_least => Cell::AtLeast(Box::new(Cell::Time(time))),
        time => or_too_few(time),
    };
    let rounded = |ns: f64| Nanos::from_ns(whole(ns.round()));
    let bumps = row.bumps.as_ref();
    [
        phrase::context(row.context).into(),
        row.service.to_string().into(),
        Cell::Count(row.samples),
        bound(row.mean_ns.map(rounded)),
        or_too_few(row.median_ns),
        or_too_few(row.p99_ns),
        bound(row.largest_ns),
        bumps.map_or(Cell::Unknown(Reason::NotApplicable), |bumps| {
            Cell::Time(rounded(bumps.every_ns))
        }),
    ]
}

/// Draws the histograms of all series over one axis.
fn histograms(report: &RecordingReport) -> Vec<String> {
    if report.services.iter().any(|row| row.minute.is_some()) {
        return Vec::new();
    }
    let names = report.histograms.iter().map(|view| {
        let name = series_words(view.service, view.route);
        view.cpu
            .map_or_else(|| name.clone(), |cpu| format!("{name}, CPU {cpu}"))
    });
    let names: Vec<String> = names.collect();
    let indent = names.iter().map(|name| name.chars().count()).max();
    let indent = indent.unwrap_or_default() + 2;
    let buckets = report.histograms.iter().map(|view| view.buckets.as_slice());
    let Some(axis) = BarAxis::over(buckets, HISTOGRAM_COLUMNS.saturating_sub(indent)) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for (view, name) in report.histograms.iter().zip(&names) {
        let bars = axis.draw(&view.buckets);
        for (at, bar) in bars.iter().enumerate() {
            let name = if at + 1 == bars.len() { name } else { "" };
            lines.push(format!("{name:indent$}{}", bar.trim_end()));
        }
    }
    lines.extend(axis.ticks().map(|line| format!("{:indent$}{line}", "")));
    lines
}
