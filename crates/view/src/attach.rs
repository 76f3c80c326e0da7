//! `laggard attach`: cycles of threads, their misses and the causes.

pub mod live;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use laggard_answer::attach::{
    AttachCause, AttachCycles, AttachFigures, AttachReport, AttachRow, AttachTaken, AttachWorst,
};
use laggard_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::doc::{Block, Cell, Column, Detail, Document, Reason, Table};
use crate::phrase::attach as phrase;
use crate::phrase::warning;

/// Causes in the short document.
const MAX_CAUSES: usize = 3;
/// Causes and threads in the short document together.
const MAX_BOTH: usize = 6;
/// Names in a line of the short document.
const MAX_NAMES: usize = 1;
/// Longest responses of threads without a deadline in the short document.
const MAX_OUTLIERS: usize = 2;
/// Threads in the short document, those without misses included, if there are as many.
const MIN_ROWS: usize = 2;

/// Processes that only start others.
const WRAPPERS: [&str; 16] = [
    "sh", "bash", "dash", "zsh", "fish", "env", "timeout", "taskset", "chrt", "sudo", "nice",
    "make", "xargs", "setsid", "nohup", "numactl",
];

/// Describes the report. `Short` fits on a terminal: the verdict, the causes and the threads
/// with misses. `Full` adds each thread, the composition of its longest cycle, and all figures.
pub fn document(report: &AttachReport, detail: Detail) -> Document {
    let mut document = Document::new("Cycles of threads");
    document.paragraph(phrase::verdict(report));
    document.push(Block::Detail(phrase::scope(report)));
    if !report.is_trusted() {
        document.push(Block::Detail(phrase::distrust(report)));
    }
    let mut max_threads = MAX_BOTH;
    for causes in [causes(report, detail), outliers(report, detail)]
        .into_iter()
        .flatten()
    {
        max_threads = max_threads.saturating_sub(causes.rows.len()).max(MIN_ROWS);
        document.push(Block::Table(causes));
    }
    let groups = Groups::new(report, detail);
    // A single further thread takes the same space as the line that counts it.
    if groups.shown.len() == max_threads + 1 {
        max_threads += 1;
    }
    if !groups.shown.is_empty() {
        document.push(Block::Table(match detail {
            Detail::Short => threads(&groups.shown, max_threads),
            Detail::Full => all_figures(&groups.shown),
        }));
    }
    if let Some(marked) = marked(&report.cycles) {
        document.push(Block::Table(marked));
    }
    let mut lines = match detail {
        Detail::Short => homes(&groups.shown[..groups.shown.len().min(max_threads)]),
        Detail::Full => Vec::new(),
    };
    lines.extend(groups.lines(detail));
    if detail == Detail::Full {
        document.lines(std::mem::take(&mut lines));
        rows(report, &mut document);
    }
    lines.extend(phrase::uncertain(report));
    lines.push(phrase::data(report, detail));
    if detail == Detail::Full {
        lines.extend(phrase::data_details(report));
    }
    lines.push(phrase::next(report));
    document.lines(lines);
    if detail == Detail::Full {
        document.notes("Warnings", report.caveats.iter().map(warning).collect());
    }
    document
}

/// Rows of the report, by where they are shown.
struct Groups<'a> {
    shown: Vec<&'a AttachRow>,
    quiet: Vec<&'a AttachRow>,
    wrappers: Vec<&'a AttachRow>,
    others: Vec<String>,
}

impl<'a> Groups<'a> {
    fn new(report: &'a AttachReport, detail: Detail) -> Self {
        let is_wrapper = |row: &&AttachRow| row.is_quiet() && WRAPPERS.contains(&row.name.as_str());
        let (wrappers, rows): (Vec<_>, Vec<_>) = report.rows.iter().partition(is_wrapper);
        let (mut quiet, mut shown): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.is_quiet());
        // Rows with a deadline come first, and stay in their order otherwise.
        quiet.sort_by_key(|row| row.deadline.is_none());
        let room = match detail {
            Detail::Short => MIN_ROWS.saturating_sub(shown.len()),
            Detail::Full => quiet.len(),
        };
        shown.extend(quiet.drain(..room.min(quiet.len())));
        let others = report.others.iter().filter(|other| {
            // A thread that only ended has no figures.
            detail == Detail::Full || other.activations > 0
        });
        let others = others.map(|other| {
            let threads = match other.threads {
                0 => String::new(),
                threads => format!("{}, ", phrase::units(threads, "thread")),
            };
            let wakeups = phrase::units(other.activations, "wakeup");
            format!("{} ({threads}{wakeups})", other.name)
        });
        Self {
            shown,
            quiet,
            wrappers,
            others: others.collect(),
        }
    }

    /// Returns a line for each group of threads that the table does not show.
    fn lines(&self, detail: Detail) -> Vec<String> {
        let max = match detail {
            Detail::Short => MAX_NAMES,
            Detail::Full => usize::MAX,
        };
        let count = |row: &&AttachRow| {
            let cycles = phrase::units(row.activations, phrase::unit(row));
            match detail {
                Detail::Short => format!("{}/{} ({cycles})", row.name, row.tid.0),
                Detail::Full => format!("{} ({cycles})", phrase::name(row)),
            }
        };
        // A row without a cycle has nothing to report.
        let with_cycles = self.quiet.iter().filter(|row| row.activations > 0);
        let (quiet, undated): (Vec<_>, Vec<_>) =
            with_cycles.partition(|row| row.deadline.is_some());
        let quiet: Vec<String> = quiet.into_iter().map(count).collect();
        let undated: Vec<String> = undated.into_iter().map(count).collect();
        let wrappers: Vec<String> = self.wrappers.iter().map(count).collect();
        [
            ("No misses", &quiet),
            ("No deadline", &undated),
            ("Wrapper processes", &wrappers),
            ("Threads without a row (--rows)", &self.others),
        ]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(title, names)| format!("{title}: {}", some(names, max)))
        .collect()
    }
}

/// Lists the first names, and counts the others.
fn some(names: &[String], max: usize) -> String {
    let rest = names.len().saturating_sub(max);
    let listed = names[..names.len() - rest].join(", ");
    match rest {
        0 => listed,
        rest => format!("{listed}, and {rest} more (--all)"),
    }
}

/// Names the first thread, and counts the others.
fn first(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [name] => name.clone(),
        [name, others @ ..] => format!("{name} +{}", others.len()),
    }
}

/// Causes of the misses, or of the worst cycle if it never ended.
fn causes(report: &AttachReport, detail: Detail) -> Option<Table> {
    if report.causes.is_empty() {
        let worst = report.worst.as_ref().filter(|worst| !worst.has_ended)?;
        return worst_cycle(worst, detail);
    }
    let is_shared = report
        .causes
        .iter()
        .any(|cause| cause.threads != report.causes[0].threads);
    let is_joint = report.causes.iter().any(|cause| cause.late.jointly > 0);
    let columns = [Column::number("avoids")];
    let jointly = is_joint.then(|| Column::number("jointly"));
    let columns = columns.into_iter().chain(jointly).chain([
        Column::number("cycles"),
        Column::number("time"),
        Column::number("max"),
    ]);
    let thread = is_shared.then(|| Column::name("thread"));
    let columns = columns.chain(thread);
    let (misses, analysed) = (report.held.misses, report.held.explained);
    let scope = if analysed < misses {
        format!(
            "{} of {} missed cycles",
            Cell::Count(analysed),
            Cell::Count(misses)
        )
    } else {
        "the missed cycles".into()
    };
    let keys = if is_joint { 5 } else { 4 };
    let mut table = Table::new(columns.chain([Column::sentence("cause")]))
        .keys(keys)
        .caption(format!(
            "Causes of {scope} (avoids: misses that end in time without it)"
        ));
    if is_joint {
        table.note("jointly: misses that end in time only without several of these causes");
    }
    let count = report.causes.len();
    // A single further cause takes the same space as the line that counts it.
    let max = match detail {
        Detail::Short if count > MAX_CAUSES + 1 => MAX_CAUSES,
        Detail::Short | Detail::Full => count,
    };
    for ranked in report.causes.iter().take(max) {
        let late = &ranked.late;
        let thread = is_shared.then(|| Cell::Text(first(&ranked.threads)));
        let jointly = is_joint.then_some(Cell::Count(late.jointly));
        let cells = [Cell::Count(late.avoided)].into_iter().chain(jointly);
        let cells = cells.chain([
            Cell::Count(late.activations),
            Cell::Time(late.taken.time_ns),
            Cell::Time(late.largest_ns),
        ]);
        let cause = phrase::late_cause(late).into();
        table.row(cells.chain(thread).chain([cause]));
    }
    let rest = report.causes.iter().skip(max);
    let rows = report.rows.iter().filter_map(|row| row.deadline.as_ref());
    let unlisted = rows.fold(Nanos::ZERO, |sum, deadline| sum + deadline.other_taken_ns);
    let time = rest.fold(unlisted, |sum, ranked| sum + ranked.late.taken.time_ns);
    if time > Nanos::ZERO {
        let thread = is_shared.then_some(Cell::Empty);
        let jointly = is_joint.then_some(Cell::Empty);
        let cells = [Cell::Empty].into_iter().chain(jointly);
        let cells = cells.chain([Cell::Empty, Cell::Time(time), Cell::Empty]);
        let cause = match count - max {
            0 => "others".into(),
            count => format!("{count} others (--all)").into(),
        };
        table.row(cells.chain(thread).chain([cause]));
    }
    if detail == Detail::Full && analysed < misses {
        table.note("Of each 100 ms, the longest missed cycles are analysed.");
    }
    Some(table)
}

/// Causes of the longest responses of threads without a deadline.
fn outliers(report: &AttachReport, detail: Detail) -> Option<Table> {
    let rows = report.rows.iter();
    let mut outliers: Vec<_> = rows.filter_map(|row| Some((row, row.outlier()?))).collect();
    outliers.sort_by_key(|(_, longest)| Reverse(longest.response_ns));
    if detail == Detail::Short {
        outliers.truncate(MAX_OUTLIERS);
    }
    let mut table = Table::new([
        Column::number("max"),
        Column::number("median"),
        Column::name("thread"),
        Column::sentence("causes"),
    ])
    .keys(3)
    .caption("Longest responses without a deadline");
    for (row, longest) in &outliers {
        table.row([
            Cell::Time(longest.response_ns),
            figure(row.response, |figures| Some(figures.median_ns)),
            Cell::Text(format!("{}/{}", row.name, row.tid.0)),
            phrase::parts(&longest.taken, MAX_CAUSES).into(),
        ]);
    }
    (!outliers.is_empty()).then_some(table)
}

/// Causes of the time of a cycle that did not end.
fn worst_cycle(worst: &AttachWorst, detail: Detail) -> Option<Table> {
    let max = match detail {
        Detail::Short => MAX_CAUSES,
        Detail::Full => usize::MAX,
    };
    let mut table = Table::new([Column::number("time"), Column::sentence("cause")]).caption(
        format!("Causes of the time of the worst cycle, of {}", worst.name),
    );
    for part in worst.taken.iter().take(max) {
        table.row([Cell::Time(part.time_ns), phrase::cause(&part.cause).into()]);
    }
    let rest = worst.taken.iter().skip(max);
    let rest = rest.fold(Nanos::ZERO, |sum, part| sum + part.time_ns);
    if rest > Nanos::ZERO {
        table.row([Cell::Time(rest), "others (--all)".into()]);
    }
    (!worst.taken.is_empty()).then_some(table)
}

/// Figures of the short document.
fn threads(rows: &[&AttachRow], max: usize) -> Table {
    let mut counts = BTreeMap::<u32, u32>::new();
    for row in rows {
        *counts.entry(row.number).or_default() += 1;
    }
    let has_ways = counts.values().any(|&count| count > 1);
    let woken_by = has_ways.then(|| Column::name("woken by"));
    let columns = [Column::name("thread"), Column::name("runs as")];
    let figures = [
        Column::number("period"),
        Column::number("missed"),
        Column::number("p99.9"),
        Column::number("max"),
        Column::number("latency"),
    ];
    let columns = columns.into_iter().chain(woken_by).chain(figures);
    let mut table = Table::new(columns)
        .caption("Threads: response (p99.9, max) until the cycle ends, max latency until it runs");
    for row in rows.iter().take(max) {
        let woken_by = has_ways.then(|| Cell::Text(row.woken_by.clone()));
        let missed = match &row.deadline {
            Some(deadline) => Cell::Text(format!(
                "{}/{}",
                Cell::Count(deadline.misses),
                Cell::Count(row.activations)
            )),
            None => Cell::Unknown(Reason::NotApplicable),
        };
        let cells = [
            Cell::Text(format!("{}/{}", row.name, row.tid.0)),
            Cell::Text(phrase::policy(&row.policy)),
        ];
        let figures = [
            Cell::time_or(row.period_ns, Reason::NotApplicable),
            missed,
            figure(row.response, |figures| figures.p999_ns),
            response(row),
            figure(row.latency, |figures| Some(figures.largest_ns)),
        ];
        table.row(cells.into_iter().chain(woken_by).chain(figures));
    }
    let rest = rows.len().saturating_sub(max);
    if rest > 0 {
        table.note(format!("{rest} more threads with misses: --all"));
    }
    table
}

/// Returns the maximum response, a lower bound if the longest cycle did not end.
fn response(row: &AttachRow) -> Cell {
    let max = row.response.map(|figures| figures.largest_ns);
    match row.overdue() {
        Some(cycle) if Some(cycle.so_far_ns) > max => {
            Cell::AtLeast(Box::new(Cell::Time(cycle.so_far_ns)))
        }
        Some(_) | None => Cell::time_or(max, Reason::TooFewSamples),
    }
}

fn figure(figures: Option<AttachFigures>, value: fn(&AttachFigures) -> Option<Nanos>) -> Cell {
    let value = figures.and_then(|figures| value(&figures));
    Cell::time_or(value, Reason::TooFewSamples)
}

/// Figures of the full document.
fn all_figures(rows: &[&AttachRow]) -> Table {
    let mut table = Table::new([
        Column::name("thread"),
        Column::name("runs as"),
        Column::name("woken by"),
        Column::number("count"),
        Column::number("period"),
        Column::number("deadline"),
        Column::number("missed"),
        Column::number("min margin"),
        Column::number("latency").starting_part(),
        Column::number("p99.9"),
        Column::number("max"),
        Column::number("response").starting_part(),
        Column::number("p99.9"),
        Column::number("max"),
        Column::number("execution").starting_part(),
        Column::number("p99.9"),
        Column::number("max"),
    ])
    .keys(3)
    .caption("Threads (latency, response and execution: median, p99.9, max)");
    for row in rows {
        let deadline = row.deadline.as_ref();
        let not_applicable = || Cell::Unknown(Reason::NotApplicable);
        let mut cells = vec![
            Cell::Text(format!("{}/{}", row.name, row.tid.0)),
            Cell::Text(phrase::policy(&row.policy)),
            Cell::Text(row.woken_by.clone()),
            Cell::Count(row.activations),
            Cell::time_or(row.period_ns, Reason::NotApplicable),
            deadline.map_or_else(not_applicable, |deadline| Cell::Time(deadline.deadline_ns)),
            deadline.map_or_else(not_applicable, |deadline| Cell::Count(deadline.misses)),
            deadline.map_or_else(not_applicable, |deadline| {
                Cell::Text(phrase::signed(deadline.least_margin_ns))
            }),
        ];
        for figures in [row.latency, row.response, row.execution] {
            cells.push(figure(figures, |figures| Some(figures.median_ns)));
            cells.push(figure(figures, |figures| figures.p999_ns));
            cells.push(figure(figures, |figures| Some(figures.largest_ns)));
        }
        table.row(cells);
    }
    table
}

/// Cycles that threads mark themselves.
fn marked(cycles: &[AttachCycles]) -> Option<Table> {
    let mut table = Table::new([
        Column::name("thread"),
        Column::number("cycles"),
        Column::number("deadline"),
        Column::number("missed"),
        Column::number("start").starting_part(),
        Column::number("max"),
        Column::number("length").starting_part(),
        Column::number("max"),
        Column::number("response").starting_part(),
        Column::number("p99.9"),
        Column::number("max"),
    ])
    .caption("Cycles that the program marks (start and response: from when a cycle is due)");
    for row in cycles {
        let deadline = row.deadline_ns;
        let missed = deadline.map_or(Cell::Unknown(Reason::NotApplicable), |_| {
            Cell::Count(row.misses)
        });
        let median = |figures| figure(figures, |figures| Some(figures.median_ns));
        let max = |figures| figure(figures, |figures| Some(figures.largest_ns));
        table.row([
            Cell::Text(format!("{}/{}", row.name, row.tid.0)),
            Cell::Count(row.cycles),
            Cell::time_or(deadline, Reason::NotApplicable),
            missed,
            median(row.begins),
            max(row.begins),
            median(row.takes),
            max(row.takes),
            median(row.response),
            figure(row.response, |figures| figures.p999_ns),
            max(row.response),
        ]);
        if let Some(note) = phrase::marks(row) {
            table.note(note);
        }
    }
    (!cycles.is_empty()).then_some(table)
}

/// States where the cycles of the threads start.
fn homes(rows: &[&AttachRow]) -> Vec<String> {
    const MAX_HOMES: usize = 2;
    let mut homes: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let Some(site) = row.home.as_ref().map(phrase::site) else {
            continue;
        };
        // Threads of one name can have different sites.
        let is_ambiguous = rows.iter().any(|other| {
            other.name == row.name
                && other
                    .home
                    .as_ref()
                    .map(phrase::site)
                    .is_some_and(|other| other != site)
        });
        let name = if is_ambiguous {
            format!("{}/{}", row.name, row.tid.0)
        } else {
            row.name.clone()
        };
        match homes.iter_mut().find(|(other, _)| *other == site) {
            Some((_, names)) if !names.contains(&name) => names.push(name),
            Some(_) => {}
            None => homes.push((site, vec![name])),
        }
    }
    if let [(site, _)] = homes.as_slice()
        && rows.iter().all(|row| row.home.is_some())
    {
        return vec![format!("Cycles start and end at {site}")];
    }
    let lines = homes.iter().take(MAX_HOMES);
    lines
        .map(|(site, names)| {
            let names = some(names, MAX_NAMES);
            format!("Cycles of {names} start and end at {site}")
        })
        .collect()
}

/// Adds the findings and details of each row.
fn rows(report: &AttachReport, document: &mut Document) {
    for row in &report.rows {
        document.heading(phrase::name(row));
        let mut lines = phrase::findings(row);
        lines.extend(phrase::details(row));
        document.push(Block::List(lines));
    }
    if !report.beside.is_empty() {
        document.heading("Services of laggard");
        document.push(Block::List(
            report.beside.iter().map(phrase::beside).collect(),
        ));
    }
}

/// Names the culprit of a cause for a recording. `None`: the class says it all.
pub fn culprit(cause: &AttachCause) -> Option<String> {
    phrase::culprit(cause)
}

/// JSON of `laggard attach`: the values of the report, and text for display.
#[derive(Debug, JsonSchema, Serialize)]
pub struct AttachJson<'a> {
    /// The report. Each cause also has its text, `what`.
    #[serde(flatten)]
    report: &'a AttachReport,
    /// Findings about the threads, for display. The values are in `rows`.
    sentences: Vec<String>,
}

/// Writes the report as JSON. Text for display is added here, because the report has values
/// only.
///
/// # Errors
/// When a value has no JSON, such as an infinite number.
pub fn json(report: &AttachReport) -> Result<Value, serde_json::Error> {
    let mut json = serde_json::to_value(AttachJson {
        report,
        sentences: phrase::sentences(report),
    })?;
    let of_causes = |taken: &[AttachTaken]| -> Vec<String> {
        let causes = taken.iter().map(|part| phrase::cause(&part.cause));
        causes.collect()
    };
    let causes = report.causes.iter();
    let causes = causes.map(|ranked| phrase::late_cause(&ranked.late));
    describe(&mut json["causes"], causes);
    if let Some(worst) = &report.worst {
        describe(&mut json["worst"]["taken"], of_causes(&worst.taken));
    }
    for (place, row) in report.rows.iter().enumerate() {
        let json = &mut json["rows"][place];
        let largest = [
            ("largest_response", &row.largest_response),
            ("largest_latency", &row.largest_latency),
        ];
        for (key, cycle) in largest {
            if let Some(cycle) = cycle {
                describe(&mut json[key]["taken"], of_causes(&cycle.taken));
            }
        }
        if let Some(deadline) = &row.deadline {
            let causes = deadline.taken.iter().map(phrase::late_cause);
            describe(&mut json["deadline"]["taken"], causes);
        }
        if let Some(cycle) = &row.unfinished {
            describe(&mut json["unfinished"]["taken"], of_causes(&cycle.taken));
        }
    }
    Ok(json)
}

/// Adds the text of each cause.
fn describe(json: &mut Value, causes: impl IntoIterator<Item = String>) {
    let parts = json.as_array_mut().into_iter().flatten();
    for (part, cause) in parts.zip(causes) {
        part["what"] = cause.into();
    }
}

#[cfg(test)]
mod tests;
