//! First screen of `laggard record` and `laggard show`.

use laggard_answer::Doubt;
use laggard_answer::overview::{LateService, Overview};
use laggard_answer::show::Share;
use laggard_model::name::series_words;
use laggard_model::{Backend, Route, Service, State};

use crate::doc::{Block, Cell, Column, Detail, Document, Reason, Table, Verdict, first_that_fits};
use crate::phrase::overview as phrase;
use crate::phrase::trust;
use crate::text::Tone;

/// Rows of causes and of other causes.
const MIN_CAUSES: usize = 2;
/// Lines of a terminal of 80 x 24 without the prompt.
const LINES: usize = 23;
/// Rows of the table of causes, with those of other causes and of wakeups without trace
/// data.
const ROWS: std::ops::RangeInclusive<usize> = 2..=5;
/// Reasons for distrust, and warnings, that the short form has. It counts the others.
const MAX_REASONS: usize = 2;
/// With more recordings, only threads are compared.
const MAX_WITH_ALL_SERVICES: usize = 2;

/// Describes a recording. `Short` has as many causes as a terminal of 80 x 24 has lines
/// for; `Full` has all that the answer lists.
pub fn document(overview: &Overview, detail: Detail) -> Document {
    let max = |reasons| Max {
        rows: *ROWS.end(),
        reasons,
        has_advice: true,
        is_brief: false,
        has_fix: true,
    };
    if detail == Detail::Full {
        return limited(overview, detail, max(usize::MAX));
    }
    // The causes and the fix matter more than the profiles, which `laggard qos` lists.
    let rows = ROWS.rev().flat_map(|rows| {
        [false, true].map(|is_brief| Max {
            rows,
            is_brief,
            ..max(MAX_REASONS)
        })
    });
    let few = Max {
        rows: *ROWS.start(),
        ..max(1)
    };
    let without_advice = Max {
        has_advice: false,
        ..few
    };
    // A screen with many doubts has the remedies of the first ones, and short answers. The fix
    // to try first is the last that is omitted.
    let brief = |has_fix| {
        [max(MAX_REASONS), few, without_advice].map(|max| Max {
            rows: *ROWS.start(),
            is_brief: true,
            has_fix,
            ..max
        })
    };
    let limits = rows
        .chain([few, without_advice])
        .chain(brief(true))
        .chain(brief(false));
    first_that_fits(LINES, limits.map(|max| limited(overview, detail, max)))
}

/// Limits of a document.
#[derive(Clone, Copy)]
struct Max {
    /// Rows of the table of causes.
    rows: usize,
    /// Reasons for distrust, and warnings.
    reasons: usize,
    /// Whether warnings have their advice.
    has_advice: bool,
    /// Whether the application fit is a line.
    is_brief: bool,
    /// Whether the fix to try first is given.
    has_fix: bool,
}

fn limited(overview: &Overview, detail: Detail, max: Max) -> Document {
    let mut document = Document::new("Summary");
    document.heading(format!(
        "{}: {}",
        overview.path,
        phrase::conditions(&overview.conditions)
    ));
    let mut verdicts = doubts(overview, max.reasons);
    verdicts.extend(warnings(overview, max.reasons, max.has_advice));
    if let Some(missing) = &overview.missing_fits {
        verdicts.push(open("UNKNOWN", phrase::missing_fits(missing)));
    }
    if overview.is_for_application {
        verdicts.extend(overview.fits.iter().map(|fit| Verdict {
            tone: crate::phrase::qos::tone(fit.verdict),
            word: crate::phrase::qos::verdict(fit.verdict).into(),
            text: phrase::fit(fit),
        }));
    }
    if !verdicts.is_empty() {
        document.push(Block::Verdicts(verdicts));
    }
    if overview.is_for_application
        && let Some(next) = overview.fits.first().and_then(phrase::fit_next)
    {
        document.push(Block::Detail(next));
    }
    if let Some(contexts) = &overview.contexts {
        document.lines(crate::phrase::show::contexts(contexts));
    }
    if !overview.services.is_empty() {
        document.push(Block::Table(latencies(&overview.services)));
    }
    causes(&mut document, overview, detail, max);
    let mut lines = Vec::new();
    if !overview.is_for_application && !overview.fits.is_empty() && max.is_brief {
        lines.push(phrase::brief_fits(overview));
    } else if !overview.is_for_application && !overview.fits.is_empty() {
        document.heading("Application fit (FIT = at most one burst of xruns per hour, 95 %)");
        let groups = phrase::FitGroup::divide(&overview.fits);
        let verdicts = groups.iter().map(|group| Verdict {
            tone: group.tone,
            word: group.word.into(),
            text: group.text(),
        });
        document.push(Block::Verdicts(verdicts.collect()));
    }
    match detail {
        Detail::Short => {
            let omitted = phrase::omitted(overview);
            lines.push(format!("{}{omitted}", phrase::data(overview)));
            lines.push(phrase::next(
                overview,
                max.is_brief && max.rows == *ROWS.start(),
            ));
        }
        // A report has the omitted facts, and its reader need not have the program.
        Detail::Full => lines.push(phrase::data(overview)),
    }
    document.lines(lines);
    document
}

fn bad(word: &str, text: String) -> Verdict {
    Verdict {
        tone: Tone::Bad,
        word: word.into(),
        text,
    }
}

fn open(word: &str, text: String) -> Verdict {
    Verdict {
        tone: Tone::Open,
        ..bad(word, text)
    }
}

/// States why the figures cannot be believed.
fn doubts(overview: &Overview, max: usize) -> Vec<Verdict> {
    let mut doubts = Vec::new();
    if overview.conditions.backend == Backend::Fake {
        doubts.push(bad(
            "NOT A MEASUREMENT",
            "the recording was made from a script".into(),
        ));
    }
    if let State::Failed { error } = &overview.conditions.state {
        doubts.push(bad(
            "FAILED",
            format!("{error}; the samples before that are valid"),
        ));
    }
    let reasons = overview.trust.reasons();
    let shown = reasons.iter().take(max);
    doubts.extend(shown.map(|reason| bad("NOT TRUSTWORTHY", trust::reason(reason))));
    let left = reasons.len().saturating_sub(max);
    doubts.extend(more(left, "reason", "reasons").map(|text| bad("", text)));
    doubts.extend(phrase::waiting(&overview.waiting).map(|text| bad("STARVED", text)));
    doubts
}

/// States warnings that change how the figures must be read.
fn warnings(overview: &Overview, max: usize, has_advice: bool) -> Vec<Verdict> {
    let warnings = &overview.warnings;
    let max = max.min(warnings.len());
    let shown = warnings.iter().take(max);
    let shown = shown.map(|doubt| {
        let text = match doubt {
            Doubt::Caveat(caveat) if !has_advice => caveat.what.clone(),
            Doubt::Missing(shortfall) if !has_advice => shortfall.to_string(),
            _ => trust::doubt(doubt),
        };
        open("WARNING", text)
    });
    let more = more(warnings.len() - max, "warning", "warnings");
    shown.chain(more.map(|text| open("", text))).collect()
}

fn more(count: usize, name: &str, plural: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("and 1 more {name} (--all)")),
        count => Some(format!("and {count} more {plural} (--all)")),
    }
}

fn columns() -> [Column; 4] {
    ["median", "p99", "p99.9", "max"].map(Column::number)
}

fn latencies(services: &[LateService]) -> Table {
    let mut table = Table::new([Column::name("Latency")].into_iter().chain(columns()));
    for row in services {
        let name: Cell = series_words(row.service, row.route).into();
        table.row([name].into_iter().chain(figures(row)));
    }
    table
}

fn figures(row: &LateService) -> [Cell; 4] {
    let max = Cell::time_or(row.max_ns, Reason::TooFewSamples);
    let max = if row.max_is_at_least && row.max_ns.is_some() {
        Cell::AtLeast(Box::new(max))
    } else {
        max
    };
    [
        quantile(&row.median),
        quantile(&row.p99),
        quantile(&row.p999),
        max,
    ]
}

/// Returns a quantile as a cell. If it is known only between two times, the cell has the
/// lower one.
fn quantile(share: &Share) -> Cell {
    let Some(time) = share.ns else {
        return Cell::Unknown(Reason::TooFewSamples);
    };
    match share.low_ns {
        Some(low) if low != time => Cell::AtLeast(Box::new(Cell::Time(low))),
        _ if share.is_at_least => Cell::AtLeast(Box::new(Cell::Time(time))),
        _ => Cell::Time(time),
    }
}

/// Adds the causes of late wakeups and the fix to try first. The shares of the rows add up to
/// 100 %.
fn causes(document: &mut Document, overview: &Overview, detail: Detail, limits: Max) {
    let above = || {
        overview
            .threshold_ns
            .map_or_else(String::new, phrase::above)
    };
    let Some(late) = &overview.late else {
        document.paragraph(if overview.is_explained {
            format!("No late wakeup{} was recorded with trace data.", above())
        } else {
            "Causes of late wakeups were not recorded; `laggard doctor` shows whether they can be."
                .into()
        });
        return;
    };
    document.heading(phrase::late(late, overview.threshold_ns));
    let mut table = match detail {
        Detail::Short => Table::new([
            Column::number(""),
            Column::sentence(""),
            Column::number(""),
            Column::number(""),
        ]),
        Detail::Full => Table::new([
            Column::number("share"),
            Column::sentence("cause"),
            Column::number("count"),
            Column::number("max"),
        ]),
    };
    // Without names of columns, the cells name their figures.
    let is_named = detail == Detail::Full;
    let max = |time, is_at_least: bool| {
        let time = Cell::Time(time);
        let time = if is_at_least {
            Cell::AtLeast(Box::new(time))
        } else {
            time
        };
        if is_named {
            time
        } else {
            Cell::Text(format!("max {time}"))
        }
    };
    let times = |count: u64| {
        let count = Cell::Count(count);
        if is_named {
            count
        } else {
            Cell::Text(format!("{count} x"))
        }
    };
    let has_others = late.others.is_some();
    let room = limits
        .rows
        .saturating_sub(usize::from(late.untraced.is_some()));
    let room = room.max(MIN_CAUSES);
    let shown = if late.causes.len() + usize::from(has_others) > room {
        room.saturating_sub(1)
    } else {
        late.causes.len()
    };
    let (listed, folded) = late.causes.split_at(shown.min(late.causes.len()));
    for row in listed {
        table.row([
            Cell::Share(row.share),
            phrase::cause(row).into(),
            times(row.wakeups),
            max(row.largest_ns, row.is_at_least),
        ]);
    }
    let others = late.others.as_ref();
    let count = folded.len() + others.map_or(0, |others| others.causes);
    if count > 0 {
        let share: f64 = folded.iter().map(|row| row.share).sum();
        let longest = folded.iter().map(|row| row.largest_ns);
        let longest = longest.chain(others.map(|others| others.max_ns)).max();
        let name = match count {
            1 => "1 other cause".to_owned(),
            count => format!("{count} other causes"),
        };
        table.row([
            Cell::Share(share + others.map_or(0.0, |others| others.share)),
            name.into(),
            Cell::Empty,
            max(longest.unwrap_or_default(), false),
        ]);
    }
    if let Some(untraced) = &late.untraced {
        table.row([
            Cell::Share(untraced.share),
            "no trace data".into(),
            times(untraced.wakeups),
        ]);
    }
    document.push(Block::Table(table));
    if let Some(first) = overview.first.as_ref().filter(|_| limits.has_fix) {
        let is_listed_first = late
            .causes
            .first()
            .is_some_and(|row| row.cause == first.cause.cause);
        document.push(Block::Detail(phrase::first(first, late, is_listed_first)));
    }
}

/// Describes several recordings side by side: their conditions and doubts, a table with a row
/// for each series and recording, and the verdicts.
pub fn documents(overviews: &[Overview]) -> Document {
    let mut document = Document::new("Summary");
    let number = |index: usize| format!("[{}]", index + 1);
    for (index, overview) in overviews.iter().enumerate() {
        document.heading(format!(
            "{} {}: {}",
            number(index),
            overview.path,
            phrase::conditions(&overview.conditions)
        ));
        let mut doubts = doubts(overview, MAX_REASONS);
        doubts.extend(warnings(overview, MAX_REASONS, true));
        if !doubts.is_empty() {
            document.push(Block::Verdicts(doubts));
        }
    }
    let columns = [Column::name("Latency"), Column::name("")];
    let mut table = Table::new(columns.into_iter().chain(self::columns())).keys(2);
    for (service, route) in series(overviews) {
        let mut name: Cell = series_words(service, route).into();
        for (at, overview) in overviews.iter().enumerate() {
            let mut rows = overview.services.iter();
            let row = rows.find(|row| (row.service, row.route) == (service, route));
            let cells = row.map(figures).into_iter().flatten();
            let name = std::mem::replace(&mut name, Cell::Empty);
            table.row([name, number(at).into()].into_iter().chain(cells));
        }
    }
    document.push(Block::Table(table));
    let mut verdicts = Vec::new();
    for (at, overview) in overviews.iter().enumerate() {
        let mut push = |tone, word: &str, text: String| {
            verdicts.push(Verdict {
                tone,
                word: word.into(),
                text: format!("{} {text}", number(at)),
            });
        };
        if let Some(missing) = &overview.missing_fits {
            push(Tone::Open, "UNKNOWN", phrase::missing_fits(missing));
        }
        if overview.is_for_application {
            for fit in &overview.fits {
                let qos = (
                    crate::phrase::qos::tone(fit.verdict),
                    crate::phrase::qos::verdict(fit.verdict),
                );
                push(qos.0, qos.1, phrase::fit(fit));
            }
        } else {
            for group in phrase::FitGroup::divide(&overview.fits) {
                push(group.tone, group.word, group.text());
            }
        }
    }
    if !verdicts.is_empty() {
        document.heading("Application fit (FIT = at most one burst of xruns per hour, 95 %)");
        document.push(Block::Verdicts(verdicts));
    }
    document.lines(vec![
        "Next: `laggard show DIR` for each, `laggard compare A --with B` for the difference".into(),
    ]);
    document
}

/// Returns the series of all recordings, each once.
fn series(overviews: &[Overview]) -> Vec<(Service, Route)> {
    let mut series: Vec<(Service, Route)> = Vec::new();
    for row in overviews.iter().flat_map(|overview| &overview.services) {
        let is_shown = overviews.len() <= MAX_WITH_ALL_SERVICES || row.service.is_thread();
        if is_shown && !series.contains(&(row.service, row.route)) {
            series.push((row.service, row.route));
        }
    }
    series
}
