//! `laggard compare`: whether wakeups are late more often after a change.

mod evidence;
mod series;
mod verdicts;

use std::cell::RefCell;

use laggard_answer::compare::{Change, CompareReport, LevelComparison, ServiceComparison};
use laggard_model::name::series_words;

pub use series::document as series;

use crate::doc::{self, Detail, Document, Figure, SCREEN_LINES, code, first_that_fits, quoted};
use crate::notes::shared;
use crate::phrase::compare as phrase;
use crate::phrase::plural;
use crate::picture::{Picture, PictureError, Style, svg};
use evidence::{causes, conditions, counts, figures, misses, push_table, quantiles, tails};
use verdicts::{Max, levels, name, verdicts};

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

fn limited(report: &CompareReport, detail: Detail, max: Max) -> Document {
    let mut document = Document::new("B compared with A");
    let sides = [("A", &report.first), ("B", &report.second)];
    let mut lines: Vec<String> = sides
        .iter()
        .map(|(letter, side)| format!("{letter}: {}", phrase::side(side)))
        .collect();
    lines.extend(report.changed.as_ref().map(phrase::changed));
    lines.extend(phrase::too_few_recordings(report));
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
    let verdict_text = if verdicts.is_empty() {
        String::new()
    } else {
        format!("{}; ", verdicts.join(", "))
    };
    format!(
        "{round}: {verdict_text}undecided: {}; recording continues",
        open.join(", ")
    )
}

fn recordings(report: &CompareReport) -> usize {
    report.first.recordings.len() + report.second.recordings.len()
}

/// States limits of the whole answer.
fn remarks(report: &CompareReport) -> Vec<String> {
    let levels = || report.services.iter().flat_map(|service| &service.levels);
    let is_clear = |level: &LevelComparison| !matches!(level.change, Change::Unclear(_));
    let differs = |level: &LevelComparison| matches!(level.change, Change::Worse | Change::Better);
    let has_unclear = levels().any(|level| !is_clear(level));
    let no_difference =
        report.is_enough && has_unclear && !levels().any(differs) && report.rows.is_none();
    let mut lines = Vec::new();
    if no_difference {
        lines.push(
            "No difference is significant. This does not prove that the sides are equal.".into(),
        );
    }
    if report.is_enough {
        lines.extend(phrase::fixed_order(&report.order));
    }
    lines.extend(phrase::trends(report));
    lines.extend(report.causes_unknown.as_ref().map(phrase::causes_unknown));
    lines
}

/// States the next step.
fn next(report: &CompareReport) -> String {
    let hint = match report
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
        || format!("Next: {hint}"),
        |((service, _), recording)| {
            let command = format!(
                "laggard why {} --service {}",
                quoted(recording),
                service.service
            );
            format!("Next: {}; {hint}", code(&command))
        },
    )
}
