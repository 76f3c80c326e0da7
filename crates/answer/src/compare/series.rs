//! A series of recordings, from build to build or from week to week: where it
//! changed (docs/method.md 10.7).

use std::num::NonZeroUsize;
use std::path::PathBuf;

use laggard_analyze::compare::{RecordingCount, change_points, compare_recordings};
use laggard_model::name::line_name;
use laggard_model::text::{Unit, rough_time};
use laggard_model::{LoadLabel, Nanos, Route, Service};
use laggard_record::Recording;
use schemars::JsonSchema;
use serde::Serialize;

use super::build::{chosen_level, is_contradicted, load};
use super::lateness::{Lateness, RUN};
use super::{Change, CompareError, LateCount, refusal, times};
use crate::began::began;
use crate::load::{Load, have_rates, open};
use crate::note::Note;
use crate::qos::CONFIDENCE;
use crate::selection::Selection;

/// The version of the JSON's layout.
pub const SERIES_SCHEMA: u32 = 1;
/// Recordings on either side of a change, at least.
const LEAST_PART: usize = 3;
/// Fewer recordings than this show no change of one of a few services, however
/// clear: too few of their orders are as clear.
pub const LEAST_SERIES: usize = 10;
/// Ratios of rates within 1 over this and this count as equal; which does not
/// matter here.
const MARGIN: f64 = 1.25;
/// The same recordings give the same answer.
const SEED: u64 = 0x6c61_6767_6172_6421;
/// Digits of figures that are known to some per cent at best.
const DIGITS: i32 = 2;

/// What is to be looked through.
#[derive(Clone, Debug)]
pub struct SeriesQuestion {
    /// The recordings.
    pub recordings: Vec<PathBuf>,
    /// Whether they are in the order of the series; else that of time is it.
    pub is_in_order: bool,
    /// How late is too late; none: chosen for each service.
    pub level: Option<Nanos>,
    /// Only this service.
    pub service: Option<Service>,
    /// At most so many threads read; no answer depends on it.
    pub threads: NonZeroUsize,
}

/// What `laggard compare --over` says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SeriesReport {
    /// The version of this layout.
    pub schema: u32,
    /// The load of all.
    pub load: LoadLabel,
    /// The recordings, in the order of the series.
    pub recordings: Vec<SeriesRecording>,
    /// Whether they are enough for any change to be told.
    pub is_enough: bool,
    /// By service, the most direct first.
    pub services: Vec<ServiceSeries>,
    /// The result in plain words.
    pub sentences: Vec<String>,
    /// What is missing from the recordings, or spoils the answer.
    #[serde(serialize_with = "crate::note::as_text")]
    #[schemars(with = "Vec<String>")]
    pub notes: Vec<Note>,
}

/// A recording of a series.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SeriesRecording {
    /// Where it is.
    pub path: String,
    /// When it was made, as in `2026-11-20T11:00:00+01:00[Europe/Berlin]`.
    pub recorded_at: String,
    /// How long it is.
    pub duration_ns: Nanos,
    /// The kernel's release.
    pub kernel: String,
}

/// A service in a series.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceSeries {
    /// The service.
    pub service: Service,
    /// How it is reached.
    pub route: Route,
    /// How late is too late.
    pub level_ns: Nanos,
    /// The share of all activations that the level was chosen by; absent where it
    /// was given.
    pub share: Option<f64>,
    /// How often each recording was later.
    pub points: Vec<LateCount>,
    /// Where that changed, in the order of the series.
    pub changes: Vec<SeriesChange>,
}

/// A change in a series.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SeriesChange {
    /// The first recording behind it, from 0.
    pub at: usize,
    /// At 95 % it is no earlier than this.
    pub earliest: usize,
    /// And no later.
    pub latest: usize,
    /// How often a series that does not change looks as if it did so much, in as
    /// many services.
    pub p: f64,
    /// How often it was late up to the change, from the one before.
    pub before: LateCount,
    /// And behind it, up to the next.
    pub behind: LateCount,
    /// The rate behind it over that before; absent where it was never late before.
    pub ratio: Option<f64>,
    /// The lower end of its 95 % interval.
    pub ratio_low: f64,
    /// The upper end; absent where there is none.
    pub ratio_high: Option<f64>,
    /// Whether it is late more often behind it.
    pub is_worse: bool,
}

/// Looks for changes in a series of recordings.
///
/// # Errors
/// When they were not measured alike, one is given twice, cannot be read or is
/// not trustworthy, or a figure is out of its range.
pub fn compare_series(question: &SeriesQuestion) -> Result<SeriesReport, CompareError> {
    let mut recordings = open(&question.recordings)?;
    have_rates(&recordings)?;
    refusal::check(&recordings, recordings.len(), question.service, false)?;
    if !question.is_in_order {
        recordings.sort_by(|one, other| began(one.manifest()).cmp(&began(other.manifest())));
    }
    let all = load(&recordings, question.threads)?;
    let mut lines = all.lines();
    lines.retain(|line| question.service.is_none_or(|only| only == line.0));
    let levels = lines.into_iter().filter_map(|line| {
        let chosen = chosen_level(&[&all], line).map(|(level, share)| (level, Some(share)));
        let level = question.level.map(|level| (level, None)).or(chosen)?;
        Some((line, level))
    });
    // When latencies of a lower level came was not kept.
    let is_kept = |(line, (level, _)): &((Service, Route), (Nanos, Option<f64>))| {
        let floor = Selection::new(&all, *line, None).floor();
        floor.unwrap_or_default() <= *level
    };
    let (levels, left_out): (Vec<_>, Vec<_>) = levels.partition(is_kept);
    let mut services = Vec::new();
    for &(line, (level, share)) in &levels {
        let late = Lateness::of(&all, line, level, RUN)?;
        services.push(ServiceSeries {
            service: line.0,
            route: line.1,
            level_ns: level,
            share,
            points: late.points(),
            changes: changes(&late, levels.len())?,
        });
    }
    let mut report = SeriesReport {
        schema: SERIES_SCHEMA,
        load: all.label.clone(),
        recordings: viewed(&recordings, &all),
        is_enough: recordings.len() >= LEAST_SERIES,
        services,
        sentences: Vec::new(),
        notes: all.notes(),
    };
    report.sentences = sentences(&report);
    if !left_out.is_empty() {
        let names = left_out
            .iter()
            .map(|((service, route), _)| line_name(*service, *route));
        report.sentences.push(format!(
            "Left out, because not every activation that was so late was kept: {}.",
            names.collect::<Vec<_>>().join(", ")
        ));
    } else if report.services.is_empty() {
        report.sentences.push(
            "Too few activations to choose how late is too late: give --at, or record for longer."
                .into(),
        );
    }
    Ok(report)
}

fn viewed(recordings: &[Recording], all: &Load) -> Vec<SeriesRecording> {
    let each = recordings.iter().zip(&all.runs);
    each.map(|(recording, run)| {
        let manifest = recording.manifest();
        SeriesRecording {
            path: run.path.clone(),
            recorded_at: manifest.clock.start_wall.clone(),
            duration_ns: run.duration,
            kernel: manifest.host.kernel.clone(),
        }
    })
    .collect()
}

/// The changes of one of so many services, which share what may be wrong.
fn changes(late: &Lateness, services: usize) -> Result<Vec<SeriesChange>, CompareError> {
    // Half an event more, so that none has a logarithm, too.
    let rate = |one: &RecordingCount| ((one.events + 0.5) / one.exposure).ln();
    let rates: Vec<f64> = late.counts.iter().map(rate).collect();
    let services = services.max(1) as f64;
    let found = change_points(&rates, LEAST_PART, (1.0 - CONFIDENCE) / services, SEED)?;
    let mut changes = Vec::new();
    for (number, one) in found.iter().enumerate() {
        let from = number.checked_sub(1).map_or(0, |before| found[before].at);
        let to = found.get(number + 1).map_or(rates.len(), |next| next.at);
        let ratio = |before: &[RecordingCount], behind: &[RecordingCount]| {
            let found = compare_recordings(before, behind, MARGIN, CONFIDENCE)?;
            Ok::<_, CompareError>((found.comparison.ratio, found.dispersions))
        };
        let (counts, most) = (&late.counts, late.at_most());
        let (told, dispersions) = ratio(&counts[from..one.at], &counts[one.at..to])?;
        let is_worse = told.ratio.is_none_or(|ratio| ratio > 1.0);
        // What is not known must not have made it.
        let (turned, _) = if is_worse {
            ratio(&most[from..one.at], &counts[one.at..to])?
        } else {
            ratio(&counts[from..one.at], &most[one.at..to])?
        };
        if turned.ratio.is_some_and(|ratio| (ratio > 1.0) != is_worse) {
            continue;
        }
        let before = late.part(from..one.at, dispersions[0]);
        let behind = late.part(one.at..to, dispersions[1]);
        let change = if is_worse {
            Change::Worse
        } else {
            Change::Better
        };
        if is_contradicted(change, [&before, &behind], MARGIN) {
            continue;
        }
        changes.push(SeriesChange {
            at: one.at,
            earliest: one.between.0,
            latest: one.between.1,
            p: (one.p * services).min(1.0),
            before,
            behind,
            ratio: told.ratio,
            ratio_low: told.interval.low,
            ratio_high: Some(told.interval.high).filter(|high| high.is_finite()),
            is_worse,
        });
    }
    Ok(changes)
}

fn sentences(report: &SeriesReport) -> Vec<String> {
    let mut all = Vec::new();
    if !report.is_enough {
        all.push(format!(
            "Of {} recording{} no change can be told from chance; record {LEAST_SERIES} or more.",
            report.recordings.len(),
            if report.recordings.len() == 1 {
                ""
            } else {
                "s"
            }
        ));
    }
    let changes = |is_worse: bool| {
        let services = report.services.iter();
        services
            .flat_map(|one| one.changes.iter().map(move |change| (one, change)))
            .filter(move |(_, change)| change.is_worse == is_worse)
            .collect::<Vec<_>>()
    };
    let (worse, better) = (changes(true), changes(false));
    for (one, change) in worse.iter().chain(&better) {
        all.push(told(report, one, change));
    }
    if worse.is_empty() && better.is_empty() && report.is_enough {
        all.push("No change was found; that is no proof that there is none.".into());
    }
    all
}

/// `fifo:90 is worse from b07 on (b06 to b08): later than ...`
fn told(report: &SeriesReport, one: &ServiceSeries, change: &SeriesChange) -> String {
    let name = |at: usize| report.recordings.get(at).map_or("", |it| it.path.as_str());
    let place = match (change.earliest, change.latest) {
        (first, last) if first == last => String::new(),
        (first, last) => format!(" ({} to {} at 95 %)", name(first), name(last)),
    };
    let every = |side: &LateCount| match side.every_ns() {
        Some(every) => format!("every {}", rough_time(every, DIGITS)),
        None => "never".into(),
    };
    let times = times(change.ratio, change.ratio_low, change.ratio_high);
    format!(
        "{} is {} from {} on{place}: later than {} {}, against {} before; {times}.",
        line_name(one.service, one.route),
        if change.is_worse { "worse" } else { "better" },
        name(change.at),
        Unit::Auto.write_nanos(one.level_ns),
        every(&change.behind),
        every(&change.before),
    )
}
