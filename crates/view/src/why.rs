//! `laggard why`: causes of late wakeups, series by series.

use laggard_answer::why::{CauseShare, LateWakeups, Remark, WhyReport};
use laggard_model::name::series_words;
use laggard_model::text::span;
use laggard_model::{Nanos, Route, Service, printable};

use crate::doc::{
    Block, Cell, Column, Detail, Document, Reason, SCREEN_LINES, Table, code, first_that_fits,
    quoted,
};
use crate::phrase::{cause, plural, sample_unit, trust, why as phrase};

mod episode;
mod handlers;

pub use episode::episode;
pub(crate) use episode::{activity, layer};
pub use handlers::handlers;

/// Number of other series that the short form names.
const MAX_NAMED: usize = 2;
/// Number of causes that one screen lists at least.
const MIN_CAUSES: usize = 2;
/// Number of missing parts that one screen lists, if it has no room for all.
const MAX_MISSING: usize = 1;

/// Describes the report. `Short` has the first series with late wakeups, `Full` all of them
/// with the largest episodes.
pub fn document(report: &WhyReport, detail: Detail) -> Document {
    limited(report, detail, usize::MAX)
}

/// Describes the report with at most this number of missing parts. It counts the others.
fn limited(report: &WhyReport, detail: Detail, max_missing: usize) -> Document {
    let mut document = Document::new("Causes of late wakeups");
    document.lines(vec![recording(report)]);
    let shown = match detail {
        Detail::Short => 1,
        Detail::Full => report.series.len(),
    };
    for late in report.series.iter().take(shown) {
        document.heading(phrase::late(late));
        push_causes(&mut document, late, detail);
        document.lines(remarks(late));
        if detail == Detail::Full {
            push_episodes(&mut document, late);
        }
    }
    document.lines(on_time(report, detail));
    let mut lines = next(report, detail);
    if max_missing == 0 && !report.shortfalls.is_empty() {
        let findings = plural(report.shortfalls.len() as u64, "finding");
        lines.push(format!("Missing from the recording: {findings} (`--all`)"));
    }
    document.lines(lines);
    if detail == Detail::Full {
        document.lines(phrase::gaps(report));
    }
    let missing = report.shortfalls.iter().map(|shortfall| match detail {
        Detail::Short => shortfall.to_string(),
        Detail::Full => trust::missing(shortfall),
    });
    let mut missing: Vec<String> = missing.collect();
    let hidden = missing.split_off(missing.len().min(max_missing));
    if !hidden.is_empty() && max_missing > 0 {
        missing.push(format!("{} more: `--all`", hidden.len()));
    }
    document.notes("Missing from the recording", missing);
    document
}

/// Describes the first series with late wakeups on one screen, with as many causes as it has
/// room for.
pub fn screen(report: &WhyReport) -> Document {
    let listed = report.series.first().map_or(0, |late| late.causes.len());
    let counts = (MIN_CAUSES.min(listed)..=listed).rev();
    let limits = counts.map(|causes| (causes, usize::MAX));
    let limits = limits.chain([
        (MIN_CAUSES.min(listed), MAX_MISSING),
        (1.min(listed), MAX_MISSING),
        (1.min(listed), 0),
    ]);
    let documents = limits.map(|(causes, max_missing)| {
        let mut report = report.clone();
        for late in report.series.iter_mut().take(1) {
            late.keep_first(causes);
        }
        limited(&report, Detail::Short, max_missing)
    });
    first_that_fits(SCREEN_LINES, documents)
}

/// Describes the causes of one series for a page.
pub(crate) fn series_document(late: &LateWakeups) -> Document {
    let mut document = Document::new(phrase::late(late));
    push_causes(&mut document, late, Detail::Full);
    document.lines(remarks(late));
    document
}

fn recording(report: &WhyReport) -> String {
    let load = report.load.as_ref();
    let load = load.map_or_else(String::new, |load| format!(", load {}", code(load)));
    let path = printable(&report.path);
    format!("{path}: {}{load}", span(report.duration_ns))
}

fn push_causes(document: &mut Document, late: &LateWakeups, detail: Detail) {
    if late.causes.is_empty() && late.untraced.is_none() {
        return;
    }
    document.push(Block::Table(match detail {
        Detail::Short => ranking(late),
        Detail::Full => full_ranking(late),
    }));
    if detail == Detail::Full && late.causes.iter().any(|row| row.rhythm.is_some()) {
        document.push(Block::Table(periods(late)));
    }
    if let Some(text) = phrase::first_fix(late) {
        document.paragraph(text);
    }
    if detail == Detail::Full {
        document.lines(phrase::gains(late));
    }
}

/// Share, time and count of a cause, its longest time and the maximum without it.
fn figures(row: &CauseShare) -> [Cell; 5] {
    [
        Cell::Share(row.share),
        Cell::Time(row.time_ns),
        Cell::Count(row.wakeups),
        bound(row.is_at_least, row.largest_ns),
        bound(row.largest_without_is_at_least, row.largest_without_ns),
    ]
}

fn bound(is_at_least: bool, time: Nanos) -> Cell {
    let time = Cell::Time(time);
    if is_at_least {
        Cell::AtLeast(Box::new(time))
    } else {
        time
    }
}

/// Late wakeups without trace data, so that the rows add up to all late wakeups.
fn untraced(late: &LateWakeups) -> Option<[Cell; 5]> {
    let untraced = late.untraced.as_ref()?;
    Some([
        Cell::Share(untraced.share),
        Cell::Time(untraced.total_ns),
        Cell::Count(untraced.wakeups),
        Cell::Unknown(Reason::NotMeasured),
        Cell::Unknown(Reason::NotMeasured),
    ])
}

fn columns() -> [Column; 5] {
    ["share", "total", "count", "max", "max without it"].map(Column::number)
}

fn ranking(late: &LateWakeups) -> Table {
    let columns = columns().into_iter().chain([Column::sentence("cause")]);
    let mut table = Table::new(columns);
    for row in &late.causes {
        let name = cause::share(row);
        table.row(figures(row).into_iter().chain([name.into()]));
    }
    if let Some(cells) = untraced(late) {
        table.row(cells.into_iter().chain([phrase::UNTRACED.into()]));
    }
    table.notes.extend(phrase::more_causes(late));
    table
}

fn full_ranking(late: &LateWakeups) -> Table {
    let more = ["first in", "episode"].map(Column::number);
    let columns = self::columns().into_iter().chain(more);
    let mut table = Table::new(columns.chain([Column::sentence("cause")]));
    for row in &late.causes {
        let name = [Cell::Text(cause::share(row))];
        let more = [
            Cell::Count(row.first_in as u64),
            Cell::Text(row.largest_episode.to_string()),
        ];
        table.row(figures(row).into_iter().chain(more).chain(name));
    }
    if let Some(cells) = untraced(late) {
        let name = [Cell::Empty, Cell::Empty, phrase::UNTRACED.into()];
        table.row(cells.into_iter().chain(name));
    }
    table.notes.extend(phrase::more_causes(late));
    table.note(
        "first in: episodes with this cause as the longest. episode: the one with its longest time.",
    );
    table
}

/// Causes that come with a period that chance does not explain.
fn periods(late: &LateWakeups) -> Table {
    let columns = ["period", "error", "seen", "due", "p"].map(Column::number);
    let columns = [Column::sentence("cause with a period")]
        .into_iter()
        .chain(columns);
    let mut table = Table::new(columns);
    for row in &late.causes {
        let Some(rhythm) = &row.rhythm else { continue };
        let p = if rhythm.p < 0.001 {
            "< 0.001".into()
        } else {
            format!("{:.3}", rhythm.p)
        };
        table.row([
            cause::on_cpus(row).into(),
            Cell::Time(rhythm.period_ns),
            Cell::time_or(rhythm.period_error_ns, Reason::TooFewSamples),
            Cell::Count(rhythm.hits as u64),
            Cell::Count(rhythm.due as u64),
            p.into(),
        ]);
    }
    table
}

fn push_episodes(document: &mut Document, late: &LateWakeups) {
    let mut table = Table::new([
        Column::number("episode"),
        Column::number("latency"),
        Column::number("CPU"),
        Column::number("after"),
        Column::number("of it"),
        Column::sentence("main cause"),
    ]);
    for row in &late.largest {
        let main = row.parts.first();
        let name = main.map(|part| cause::name(&part.cause, &[]));
        table.row([
            Cell::Text(row.number.to_string()),
            bound(row.is_at_least, row.latency_ns),
            Cell::Text(row.line.cpu.to_string()),
            Cell::Text(format!("{:.3} s", row.after_start_ns.as_secs_f64())),
            main.map_or(Cell::Empty, |part| Cell::Time(part.took_ns)),
            name.unwrap_or_default().into(),
        ]);
    }
    if !table.rows.is_empty() {
        let caption = format!(
            "Largest {} of {} episodes",
            Cell::Count(late.largest.len() as u64),
            Cell::Count(late.episodes as u64)
        );
        document.push(Block::Table(table.caption(caption)));
    }
    document.lines(vec![thresholds(late)]);
}

fn thresholds(late: &LateWakeups) -> String {
    let thresholds = late.thresholds.iter().map(|line| {
        let threshold = line.threshold_ns.map(|time| Cell::Time(time).to_string());
        let threshold = threshold.unwrap_or_else(|| "not chosen".into());
        format!("CPU {} {threshold}", line.line.cpu)
    });
    let surplus = late.surplus().filter(|surplus| *surplus > 0);
    let surplus = surplus.map_or_else(String::new, |surplus| {
        format!("; {} late wakeups not kept", Cell::Count(surplus))
    });
    format!(
        "Latency threshold: {}{surplus}",
        thresholds.collect::<Vec<_>>().join(", ")
    )
}

fn remarks(late: &LateWakeups) -> Vec<String> {
    late.remarks.iter().map(phrase::remark).collect()
}

/// Series without late wakeups. If there are others, only the full form names them.
fn on_time(report: &WhyReport, detail: Detail) -> Vec<String> {
    if !report.series.is_empty() && detail == Detail::Short {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for late in &report.on_time {
        lines.push(phrase::on_time(late));
        let remarks = late.remarks.iter();
        let doubts = remarks.filter(|remark| !is_doubt_of_all(remark));
        lines.extend(doubts.map(phrase::remark));
    }
    lines
}

/// Returns whether [`phrase::on_time`] has the remark.
const fn is_doubt_of_all(remark: &Remark) -> bool {
    matches!(remark, Remark::LostSamples { .. } | Remark::NotCounted)
}

/// The worst wakeup, and series that are not shown.
fn next(report: &WhyReport, detail: Detail) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(worst) = report.series.first().and_then(|late| late.largest.first()) {
        let is_worst = (report.series.first())
            .and_then(|late| late.measured_max_ns)
            .is_none_or(|max| max <= worst.latency_ns);
        let unit = sample_unit(report.series.first().and_then(|late| late.service));
        let scope = if is_worst { "" } else { " with trace data" };
        lines.push(format!(
            "Worst {unit}{scope}: {}",
            code(&format!(
                "laggard why {} --episode {}",
                quoted(&report.path),
                worst.number
            ))
        ));
    }
    let others = report.series.get(1..).unwrap_or_default();
    if detail == Detail::Short && !others.is_empty() {
        let named = others.iter().take(MAX_NAMED).map(other);
        let mut named: Vec<String> = named.collect();
        if others.len() > MAX_NAMED {
            named.push(format!("{} more series", others.len() - MAX_NAMED));
        }
        lines.push(format!("Also late: {} (`--all`)", named.join(", ")));
    }
    lines
}

fn other(late: &LateWakeups) -> String {
    format!(
        "{} ({} x, max {})",
        scope(late.service, late.route),
        Cell::Count(late.wakeups),
        bound(
            late.largest_is_at_least,
            late.measured_max_ns.unwrap_or(late.largest_ns)
        )
    )
}

fn scope(service: Option<Service>, route: Option<Route>) -> String {
    service.map_or_else(
        || "All series".into(),
        |service| series_words(service, route.unwrap_or(Route::Direct)),
    )
}

#[cfg(test)]
mod tests;
