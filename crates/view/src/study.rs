//! `laggard study`: tables and figures of the papers.

use laggard_answer::study::{StudyCell, StudyName, StudyReport, StudySystem, StudyTable};
use laggard_model::text::{rate, rough_time, span};

use crate::doc::{Block, Cell, Column, Document, Figure, Table, code};
use crate::phrase::{cause, study as phrase};
use crate::text::Tone;

/// Factor between two times from which they are marked as different.
const MIN_FACTOR: f64 = 2.0;

/// Describes a study. `figures` are the names of the drawings that exist.
pub fn document(report: &StudyReport, figures: &[String]) -> Document {
    let mut document = Document::new(phrase::title(report.study));
    document.paragraph(phrase::paper(report.study));
    let letters = letters(report);
    document.lines(
        report
            .systems
            .iter()
            .zip(&letters)
            .map(|(system, letter)| phrase::system(system, letter))
            .collect(),
    );
    for table in &report.tables {
        document.heading(phrase::table(report.study, &table.name));
        document.push(Block::Table(self::table(report, table, &letters)));
    }
    if let Some(advice) = phrase::advice(report) {
        document.paragraph(advice);
    }
    for name in figures {
        document.push(Block::Figure(Figure {
            id: name.clone(),
            caption: phrase::figure(report.study, name),
        }));
    }
    for (system, letter) in report.systems.iter().zip(&letters) {
        let title = if letter.is_empty() {
            "Not recorded".to_owned()
        } else {
            format!("Not recorded on {letter}")
        };
        let missing = phrase::unrecorded(system);
        document.notes(title, missing);
    }
    document.notes(
        "Not repeated",
        report
            .gaps
            .iter()
            .map(|gap| phrase::gap(*gap).into())
            .collect(),
    );
    document.notes("Warnings", phrase::warnings(report));
    document
}

/// Returns the names of the systems in tables; empty for a single one.
fn letters(report: &StudyReport) -> Vec<String> {
    if report.systems.len() < 2 {
        return vec![String::new()];
    }
    let name = |(place, system): (usize, &StudySystem)| match system.directory {
        Some(_) => ["A", "B"][place.min(1)].to_owned(),
        None => "paper".into(),
    };
    report.systems.iter().enumerate().map(name).collect()
}

/// Builds a table: a row per key and system, a column per key.
fn table(report: &StudyReport, table: &StudyTable, letters: &[String]) -> Table {
    let is_compared = letters.len() > 1;
    let spans = phrase::spans(report);
    let has_names = table.rows.iter().flat_map(|row| &row.cells).flatten();
    let has_names = has_names
        .into_iter()
        .any(|cell| matches!(cell, StudyCell::Name { .. } | StudyCell::Cause { .. }));
    let mut columns = vec![Column::name("")];
    if is_compared {
        columns.push(Column::name("system"));
    }
    for name in &table.columns {
        let (words, starts_part) = phrase::column(report.study, &table.name, name, &spans);
        let is_last = Some(name) == table.columns.last();
        let column = match (has_names, is_last) {
            (true, true) => Column::sentence(words),
            (true, false) => Column::name(words),
            (false, _) => Column::number(words),
        };
        columns.push(if starts_part {
            column.starting_part()
        } else {
            column
        });
    }
    let mut shown = Table::new(columns).keys(if is_compared { 2 } else { 1 });
    if let Some(unit) = unit(report.study, &table.name) {
        shown = shown.caption(unit.caption());
    }
    let mut has_mark = false;
    for row in &table.rows {
        let mut is_first = true;
        // Rows such as the buffers of an application are the same on each system.
        let is_same = is_compared && row.cells.iter().all(|values| values[1..] == values[..1]);
        for (place, letter) in letters.iter().enumerate() {
            if !phrase::has_value(row, place) || is_same && place > 0 {
                continue;
            }
            let key = if std::mem::take(&mut is_first) {
                phrase::row(report.study, &row.row).into()
            } else {
                Cell::Empty
            };
            let mut cells = vec![key];
            if is_compared {
                let both = if is_same {
                    letters.join(", ")
                } else {
                    letter.clone()
                };
                cells.push(both.into());
            }
            for values in &row.cells {
                let Some(value) = values.get(place) else {
                    continue;
                };
                let is_printed = report.systems[place].directory.is_none();
                let text = text(value, unit(report.study, &table.name), is_printed);
                let first = &values[0];
                // A name in a paper is another one anyway.
                let is_name = is_printed && matches!(value, StudyCell::Name { .. });
                let is_comparable = place > 0 && !is_name && is_comparable(report, table);
                let tone = is_comparable.then(|| difference(first, value)).flatten();
                cells.push(match tone {
                    Some(tone) => {
                        has_mark = true;
                        Cell::Status(tone, format!("{text}*"))
                    }
                    None => text.into(),
                });
            }
            shown.row(cells);
        }
    }
    if has_mark {
        shown.note(phrase::MARK);
    }
    for note in phrase::notes(report, table) {
        shown.note(note);
    }
    shown
}

/// Returns whether the cells of a row have the same meaning on both systems. Ranks of causes
/// and samples, and spans of different lengths, do not.
fn is_comparable(report: &StudyReport, table: &StudyTable) -> bool {
    match table.name.as_str() {
        "handlers" | "causes" | "figure5" => false,
        "table4" => report.study != StudyName::Osdi99,
        "table3" if report.study == StudyName::Osdi99 => phrase::other_spans(report).is_none(),
        _ => true,
    }
}

/// Unit of the times of a table.
#[derive(Clone, Copy, Debug)]
enum TableUnit {
    /// Milliseconds, as in OSDI'99 Table 3.
    Ms,
    Us,
}

impl TableUnit {
    const fn caption(self) -> &'static str {
        match self {
            Self::Ms => "Milliseconds",
            Self::Us => "Microseconds",
        }
    }

    /// Number of significant digits of a recorded time.
    const fn digits(self) -> i32 {
        match self {
            Self::Ms => 2,
            Self::Us => 3,
        }
    }

    fn write(self, ns: f64, digits: i32) -> String {
        match self {
            Self::Ms => self::digits(ns / 1e6, digits),
            Self::Us => self::digits(ns / 1e3, digits),
        }
    }
}

fn unit(study: StudyName, table: &str) -> Option<TableUnit> {
    match (study, table) {
        (StudyName::Osdi99, "table3" | "kernel_threads") => Some(TableUnit::Ms),
        (StudyName::Heubaum, _)
        | (StudyName::Timmerman, "switches" | "interrupts")
        | (StudyName::Hotos99, "table1" | "table1.paper") => Some(TableUnit::Us),
        (StudyName::Osdi99 | StudyName::Hotos99 | StudyName::Timmerman, _) => None,
    }
}

/// Writes a number with this many significant digits and without an exponent.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the power of ten of a finite number is a small one"
)]
fn digits(value: f64, digits: i32) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0".into();
    }
    let places = digits - 1 - value.log10().floor() as i32;
    // Rounding may add a digit: 9.96 has two digits as 10.
    let rounded = (value * 10_f64.powi(places)).round() / 10_f64.powi(places);
    let places = digits - 1 - rounded.log10().floor() as i32;
    format!("{rounded:.*}", usize::try_from(places).unwrap_or(0))
}

/// Returns the number of significant digits of a time that a paper prints, at least two.
fn printed_digits(ns: f64) -> i32 {
    // The exponent form has no trailing zeros.
    let number = format!("{:e}", ns.round());
    let digits = number.split('e').next().unwrap_or_default();
    let digits = digits.chars().filter(char::is_ascii_digit).count();
    i32::try_from(digits).unwrap_or(2).max(2)
}

/// Writes a cell. The numbers of a paper are not rounded.
fn text(cell: &StudyCell, unit: Option<TableUnit>, is_printed: bool) -> String {
    let time = |ns: &f64| {
        let digits = if is_printed {
            printed_digits(*ns)
        } else {
            unit.map_or(3, TableUnit::digits)
        };
        match unit {
            Some(unit) => unit.write(*ns, digits),
            None => rough_time(*ns, digits),
        }
    };
    match cell {
        StudyCell::Time { ns } => time(ns),
        StudyCell::AtLeast { ns } => format!(">= {}", time(ns)),
        StudyCell::AtMost { ns } | StudyCell::Between { high_ns: ns, .. } => {
            format!("<= {}", time(ns))
        }
        StudyCell::Range { low_ns, high_ns } => format!("{} to {}", time(low_ns), time(high_ns)),
        StudyCell::Count { count } => Cell::Count(*count).to_string(),
        StudyCell::Share { share } => Cell::Share(*share).to_string(),
        StudyCell::Rate { per_second, unit } => rate(*per_second, unit),
        StudyCell::Verdict { verdict, .. } => crate::phrase::check::verdict(*verdict).into(),
        StudyCell::Cause { cause, .. } => cause::name(cause, &[]),
        StudyCell::Name { text } => text.clone(),
        StudyCell::Record { ns } => {
            let time = laggard_model::Nanos::from_ns(laggard_model::whole(*ns));
            format!("record {}", span(time))
        }
        StudyCell::Missing { reason } => phrase::missing(*reason).into(),
    }
}

/// Returns whether the second value differs: another name or verdict, or times that differ by
/// a factor of [`MIN_FACTOR`] wherever they lie within their limits.
fn difference(first: &StudyCell, second: &StudyCell) -> Option<Tone> {
    match (first, second) {
        (StudyCell::Name { text }, StudyCell::Name { text: other }) => {
            return (text != other).then_some(Tone::Open);
        }
        (StudyCell::Verdict { verdict, .. }, StudyCell::Verdict { verdict: other, .. }) => {
            return (verdict != other).then_some(Tone::Open);
        }
        _ => {}
    }
    let ([first_low, first_high], [low, high]) = (limits(first)?, limits(second)?);
    if low >= MIN_FACTOR * first_high.max(1.0) {
        Some(Tone::Bad)
    } else if high * MIN_FACTOR <= first_low {
        Some(Tone::Good)
    } else {
        None
    }
}

/// Returns the limits of a time, ns.
const fn limits(cell: &StudyCell) -> Option<[f64; 2]> {
    match cell {
        StudyCell::Time { ns } => Some([*ns, *ns]),
        StudyCell::AtLeast { ns } => Some([*ns, f64::INFINITY]),
        StudyCell::AtMost { ns } => Some([0.0, *ns]),
        StudyCell::Between { low_ns, high_ns } => Some([*low_ns, *high_ns]),
        StudyCell::Range { .. }
        | StudyCell::Count { .. }
        | StudyCell::Share { .. }
        | StudyCell::Rate { .. }
        | StudyCell::Verdict { .. }
        | StudyCell::Cause { .. }
        | StudyCell::Name { .. }
        | StudyCell::Record { .. }
        | StudyCell::Missing { .. } => None,
    }
}

/// Average and max of several systems, for one figure.
#[derive(Debug)]
pub struct BarFigure {
    /// Name of the figure.
    pub name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) subtitle: &'static str,
    pub(crate) bars: Vec<Bar>,
}

/// Average and max of one system, ns.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) system: String,
    pub(crate) average_and_max_ns: [f64; 2],
}

/// Returns the comparisons of two systems by Timmerman (Figures 3, 6 and 8).
pub fn bars(report: &StudyReport) -> Vec<BarFigure> {
    let letters = letters(report);
    let bars = |table: &str, row: &str| {
        let table = report
            .tables
            .iter()
            .find(|candidate| candidate.name == table)?;
        let row = table.rows.iter().find(|candidate| candidate.row == row)?;
        let time = |column: &str, system: usize| {
            let place = table.columns.iter().position(|name| name == column)?;
            let StudyCell::Time { ns } = row.cells.get(place)?.get(system)? else {
                return None;
            };
            Some(*ns)
        };
        let bar = |(system, letter): (usize, &String)| {
            Some(Bar {
                system: letter.clone(),
                average_and_max_ns: [time("mean", system)?, time("max", system)?],
            })
        };
        Some(letters.iter().enumerate().filter_map(bar).collect())
    };
    let figures = [
        (
            "figure3",
            "switches",
            "10",
            "Thread switch latency",
            "10 threads",
        ),
        (
            "figure6",
            "interrupts",
            "latency",
            "ISR latency",
            "computing thread",
        ),
        (
            "figure8",
            "interrupts",
            "dispatch",
            "ISR dispatch latency",
            "computing thread",
        ),
    ];
    let figures = figures
        .into_iter()
        .map(|(name, table, row, title, subtitle)| BarFigure {
            name,
            title,
            subtitle,
            bars: bars(table, row).unwrap_or_default(),
        });
    // A single system is in the other figures.
    figures.filter(|figure| figure.bars.len() > 1).collect()
}

/// Adds where the figures are to a document for the terminal.
pub fn add_page(document: &mut Document, page: &str) {
    document.lines(vec![format!("Figures: {}", code(page))]);
}

/// Describes a part of the paper that laggard cannot repeat.
pub fn gap(gap: laggard_answer::study::plan::Gap) -> &'static str {
    phrase::gap(gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_paper_are_not_rounded() {
        for (ns, unit, printed, recorded) in [
            (1_003e3, None, "1.003 ms", "1.00 ms"),
            (976e3, None, "976 us", "976 us"),
            (9_291e3, Some(TableUnit::Us), "9291", "9290"),
            (5_487.0, Some(TableUnit::Us), "5.487", "5.49"),
            (31e3, Some(TableUnit::Us), "31", "31.0"),
            (12.2e6, Some(TableUnit::Ms), "12.2", "12"),
            (1e6, Some(TableUnit::Ms), "1.0", "1.0"),
        ] {
            let cell = StudyCell::Time { ns };

            let texts = [true, false].map(|is_printed| text(&cell, unit, is_printed));

            assert_eq!(texts, [printed, recorded], "{ns}");
        }
    }

    #[test]
    fn limit_differs_only_if_all_times_within_it_do() {
        let time = |ns| StudyCell::Time { ns };
        let at_least = |ns| StudyCell::AtLeast { ns };
        let at_most = |ns| StudyCell::AtMost { ns };
        let between = |low_ns, high_ns| StudyCell::Between { low_ns, high_ns };
        for (first, second, tone) in [
            (time(10.0), time(20.0), Some(Tone::Bad)),
            (time(10.0), time(19.0), None),
            (time(10.0), time(5.0), Some(Tone::Good)),
            (time(10.0), at_least(20.0), Some(Tone::Bad)),
            (time(10.0), at_least(4.0), None),
            (at_least(10.0), time(99.0), None),
            (at_least(10.0), time(5.0), Some(Tone::Good)),
            (at_most(10.0), time(2.0), None),
            (time(10.0), at_most(5.0), Some(Tone::Good)),
            (between(2.0, 30.0), time(40.0), None),
            (between(2.0, 30.0), time(60.0), Some(Tone::Bad)),
            (at_least(10.0), at_most(99.0), None),
        ] {
            assert_eq!(difference(&first, &second), tone, "{first:?}, {second:?}");
        }
    }
}
