//! `laggard compare --over`: the changes in a series of recordings.

use laggard_answer::compare::{
    LEAST_SERIES, LateCount, Series, SeriesChange, SeriesReport, ServiceSeries,
};
use laggard_model::name::series_words;
use laggard_model::text::span;
use laggard_model::{LoadLabel, Nanos};

use crate::doc::{Block, Cell, Column, Detail, Document, Table, Verdict, code};
use crate::notes::shared;
use crate::phrase::compare as phrase;
use crate::phrase::{plural, qos};
use crate::text::Tone;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Decades between the lowest and the highest block.
const DECADES: f64 = 1.0;
/// Maximum number of blocks. If there are more recordings, a block stands for several.
const MAX_BLOCKS: usize = 32;

/// Describes the series: its changes, and the rate of each service over the recordings.
/// `Full` has every recording.
pub fn document(report: &SeriesReport, detail: Detail) -> Document {
    let mut document = Document::new("Changes in a series of recordings");
    let verdicts = verdicts(report);
    if !verdicts.is_empty() {
        document.push(Block::Verdicts(verdicts));
    }
    let mut lines = vec![recordings(report)];
    let warnings = report.notes.iter().filter(|note| note.is_warning());
    lines.extend(shared(warnings, report.recordings.len()));
    document.lines(lines);
    document.lines(remarks(report));
    if !report.services.is_empty() {
        document.push(Block::Table(services(report)));
    }
    if detail == Detail::Full {
        for service in &report.services {
            document.push(Block::Table(points(report, service)));
        }
        document.notes("Warnings", shared(&report.notes, report.recordings.len()));
    } else {
        document.lines(vec![next(report)]);
    }
    document
}

fn recordings(report: &SeriesReport) -> String {
    let lengths = report.recordings.iter();
    let sum = lengths.fold(Nanos::ZERO, |sum, recording| sum + recording.duration_ns);
    let load = if report.load == LoadLabel::none() {
        String::new()
    } else {
        qos::under(&report.load)
    };
    let ends = [report.recordings.first(), report.recordings.last()];
    let [first, last] = ends.map(|end| end.map_or_else(String::new, |end| code(&end.path)));
    format!(
        "{}, {} in total{load}: {first} to {last}",
        plural(report.recordings.len() as u64, "recording"),
        span(sum),
    )
}

/// Returns the changes, worse ones first.
fn verdicts(report: &SeriesReport) -> Vec<Verdict> {
    let services = report.services.iter();
    let mut changes: Vec<(&ServiceSeries, &SeriesChange)> = services
        .flat_map(|service| service.changes.iter().map(move |change| (service, change)))
        .collect();
    changes.sort_by_key(|(_, change)| !change.is_worse);
    changes
        .into_iter()
        .map(|(service, change)| Verdict {
            tone: if change.is_worse {
                Tone::Bad
            } else {
                Tone::Good
            },
            word: if change.is_worse { "worse" } else { "better" }.into(),
            text: change_text(report, service, change),
        })
        .collect()
}

fn change_text(report: &SeriesReport, service: &ServiceSeries, change: &SeriesChange) -> String {
    let name = |index: usize| {
        let recording = report.recordings.get(index);
        recording.map_or_else(String::new, |recording| code(&recording.path))
    };
    let interval = if change.earliest == change.latest {
        String::new()
    } else {
        format!(
            " (95 % CI {} to {})",
            name(change.earliest),
            name(change.latest)
        )
    };
    let every = |side: &LateCount| match phrase::every(side).as_str() {
        "never" => "never".to_owned(),
        every => format!("every {every}"),
    };
    let ratio = phrase::ratio_of(change.ratio, change.ratio_low, change.ratio_high);
    let ratio = ratio.map_or_else(String::new, |ratio| format!("; rate {ratio}"));
    format!(
        "{} from {}{interval}: later than {} {}, before {}{ratio}",
        series_words(service.service, service.route),
        name(change.at),
        Cell::Time(service.level_ns),
        every(&change.behind),
        every(&change.before),
    )
}

fn remarks(report: &SeriesReport) -> Vec<String> {
    let mut lines = Vec::new();
    let has_changes = report
        .services
        .iter()
        .any(|service| !service.changes.is_empty());
    if !report.is_enough {
        lines.push(format!(
            "Too few recordings to show a change: {} of {LEAST_SERIES}.",
            report.recordings.len()
        ));
    } else if !has_changes {
        lines.push("No change found. This does not prove that nothing changed.".into());
    }
    if !report.left_out.is_empty() {
        let series = report.left_out.iter();
        let names: Vec<String> = series
            .map(|Series { service, route }| series_words(*service, *route))
            .collect();
        lines.push(format!(
            "Left out, because a recording did not keep every wakeup above the level: {}.",
            names.join(", ")
        ));
    } else if report.services.is_empty() {
        lines.push(
            "Too few wakeups to choose a level; set one with `--at`, or record for longer.".into(),
        );
    }
    lines
}

fn services(report: &SeriesReport) -> Table {
    let mut table = Table::new([
        Column::name("series"),
        Column::number("level"),
        Column::number("every"),
        Column::name("rate over the recordings"),
    ])
    .keys(2);
    for service in &report.services {
        let (clusters, exposure) = sums(&service.points);
        let every = if clusters > 0.0 {
            phrase::estimate(exposure / clusters)
        } else {
            "never".into()
        };
        table.row([
            series_words(service.service, service.route).into(),
            Cell::Time(service.level_ns),
            every.into(),
            drawn(service).into(),
        ]);
    }
    table.note("every: mean time between runs of wakeups later than the level, on a CPU. A block per recording, or per few: height on a scale from a tenth of the highest rate; . none; | change.");
    table
}

fn sums(points: &[LateCount]) -> (f64, f64) {
    let clusters = points.iter().map(|point| point.clusters).sum();
    let exposure = points.iter().map(|point| point.exposure_ns).sum();
    (clusters, exposure)
}

/// Draws the rate of each recording as a block, and changes as bars.
fn drawn(service: &ServiceSeries) -> String {
    let step = service.points.len().div_ceil(MAX_BLOCKS).max(1);
    let rate = |points: &[LateCount]| {
        let (clusters, exposure) = sums(points);
        clusters / exposure
    };
    let rates: Vec<f64> = service.points.chunks(step).map(rate).collect();
    let max = rates.iter().copied().fold(0.0, f64::max);
    let mut text = String::new();
    for (column, &rate) in rates.iter().enumerate() {
        let recordings = column * step..(column + 1) * step;
        let mut changes = service.changes.iter();
        if changes.any(|change| recordings.contains(&change.at)) {
            text.push('|');
        }
        text.push(block(rate, max));
    }
    text
}

fn block(rate: f64, max: f64) -> char {
    if rate <= 0.0 {
        return '.';
    }
    let last = BLOCKS.len() - 1;
    let below = (max / rate).log10() / DECADES * last as f64;
    let level = (0..last).find(|level| below <= *level as f64 + 0.5);
    BLOCKS[last - level.unwrap_or(last)]
}

/// Returns every recording of a service.
fn points(report: &SeriesReport, service: &ServiceSeries) -> Table {
    let mut table = Table::new([
        Column::name("recording"),
        Column::name("kernel"),
        Column::number("late runs"),
        Column::number("every"),
    ])
    .caption(format!(
        "{}, later than {}",
        series_words(service.service, service.route),
        Cell::Time(service.level_ns)
    ));
    for (recording, point) in report.recordings.iter().zip(&service.points) {
        table.row([
            recording.path.as_str().into(),
            recording.kernel.as_str().into(),
            Cell::MeanCount(point.clusters),
            phrase::every(point).into(),
        ]);
    }
    table
}

fn next(report: &SeriesReport) -> String {
    match report
        .notes
        .iter()
        .filter(|note| !note.is_warning())
        .count()
    {
        0 => "Next: every recording: `--all`".into(),
        count => format!(
            "Next: every recording and {}: `--all`",
            plural(count as u64, "warning")
        ),
    }
}
