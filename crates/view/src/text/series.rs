//! `laggard compare --over` for the terminal.

use laggard_answer::compare::{LateCount, SeriesReport, ServiceSeries};
use laggard_model::name::line_name;
use laggard_model::text::{brief, rough_time, span};
use laggard_model::{LoadLabel, Nanos, printable, printable_lines};

use super::Look;
use super::grid::Grid;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The largest rate is drawn as high as all blocks; one of a tenth as low as one.
const DECADES: f64 = 1.0;
/// Of more recordings, several are a column.
const MOST_COLUMNS: usize = 32;
/// Digits of figures that are known to some per cent at best.
const DIGITS: i32 = 2;

/// The report as text; with `all`, every recording and note too.
pub fn series(report: &SeriesReport, all: bool, look: Look) -> String {
    let load = if report.load == LoadLabel::none() {
        "no load of ours".into()
    } else {
        format!("load {}", printable(report.load.as_str()))
    };
    let lengths = report.recordings.iter().map(|one| one.duration_ns);
    let sum = lengths.fold(Nanos::ZERO, |sum, one| sum + one);
    let path = |one: Option<&laggard_answer::compare::SeriesRecording>| {
        one.map_or_else(String::new, |one| printable(&one.path).to_string())
    };
    let mut text = look.hanging(
        "",
        "  ",
        &format!(
            "{} recording{}, {} together, {load}: {} to {}",
            report.recordings.len(),
            if report.recordings.len() == 1 {
                ""
            } else {
                "s"
            },
            span(sum),
            path(report.recordings.first()),
            path(report.recordings.last())
        ),
    );
    text += &look.warned_of(&report.notes, report.recordings.len());
    text.push('\n');
    for sentence in &report.sentences {
        text += &look.hanging("", "  ", &printable(sentence).to_string());
    }
    text += &services(report, look);
    if all {
        text += &points(report, look);
        text += &look.to_bear_in_mind_of(&report.notes, report.recordings.len());
    } else if !report.notes.is_empty() {
        let count = report.notes.len();
        let plural = if count == 1 { "" } else { "s" };
        text += &format!("\n{count} note{plural} on the recordings (--all)\n");
    }
    printable_lines(&text).to_string()
}

fn services(report: &SeriesReport, look: Look) -> String {
    let header = [
        "service",
        "later than",
        "every",
        "in the order of the series",
    ];
    let mut rows = Grid::new(header).keys(2).left([3]);
    for one in &report.services {
        let clusters: f64 = one.points.iter().map(|point| point.clusters).sum();
        let exposure: f64 = one.points.iter().map(|point| point.exposure_ns).sum();
        let every = if clusters > 0.0 {
            rough_time(exposure / clusters, DIGITS)
        } else {
            "never".into()
        };
        let name = line_name(one.service, one.route);
        rows.add_row([name, brief(one.level_ns), every, drawn(one)]);
    }
    if report.services.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}", rows.written(look));
    let drawn = "A column for each recording, or for a few: the higher, the more often it was \
                 late, to a tenth of the most; . never; | a change";
    text += &look.hanging("", "  ", drawn);
    text
}

/// The rate of each recording as a block, and changes as bars between.
fn drawn(one: &ServiceSeries) -> String {
    let step = one.points.len().div_ceil(MOST_COLUMNS).max(1);
    let rate = |points: &[LateCount]| {
        let clusters: f64 = points.iter().map(|point| point.clusters).sum();
        let exposure: f64 = points.iter().map(|point| point.exposure_ns).sum();
        clusters / exposure
    };
    let rates: Vec<f64> = one.points.chunks(step).map(rate).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let mut text = String::new();
    for (column, &rate) in rates.iter().enumerate() {
        let columns = column * step..(column + 1) * step;
        if one
            .changes
            .iter()
            .any(|change| columns.contains(&change.at))
        {
            text.push('|');
        }
        text.push(block(rate, most));
    }
    text
}

fn block(rate: f64, most: f64) -> char {
    let last = BLOCKS.len() - 1;
    let below = if rate > 0.0 {
        (most / rate).log10() / DECADES * last as f64
    } else {
        return '.';
    };
    let level = (0..last).find(|level| below <= *level as f64 + 0.5);
    BLOCKS[last - level.unwrap_or(last)]
}

/// Every recording.
fn points(report: &SeriesReport, look: Look) -> String {
    let mut text = String::new();
    for one in &report.services {
        let mut rows = Grid::new(["recording", "kernel", "later", "every"]).keys(1);
        for (recording, point) in report.recordings.iter().zip(&one.points) {
            rows.add_row([
                printable(&recording.path).to_string(),
                printable(&recording.kernel).to_string(),
                format!("{:.0}", point.clusters),
                super::compare::every(point),
            ]);
        }
        let name = line_name(one.service, one.route);
        text += &format!("\n{name}, later than {}:\n", brief(one.level_ns));
        text += &rows.written(look);
    }
    text
}
