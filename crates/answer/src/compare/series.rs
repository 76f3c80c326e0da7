//! Changes in a series of recordings, such as nightly builds (docs/method.md 10.7).

use std::num::NonZeroUsize;
use std::path::PathBuf;

use laggard_analyze::compare::{RecordingCount, change_points, compare_recordings};
use laggard_model::{LoadLabel, Nanos, Route, Service};
use laggard_record::Recording;
use schemars::JsonSchema;
use serde::Serialize;

use super::build::{chosen_level, is_contradicted, load};
use super::lateness::{Lateness, RUN};
use super::{Change, CompareError, LateCount, refusal};
use crate::began::began;
use crate::load::{Load, have_rates, open};
use crate::note::Note;
use crate::qos::CONFIDENCE;
use crate::selection::Selection;

/// Version of the layout of the JSON.
pub const SERIES_SCHEMA: u32 = 3;
/// Minimum number of recordings on either side of a change.
const MIN_PART: usize = 3;
/// Minimum number of recordings. With fewer, even a clear change is not significant.
pub const LEAST_SERIES: usize = 10;
/// Margin of the same rate. It is not used here.
const MARGIN: f64 = 1.25;
/// Seed of the permutations: the same recordings give the same answer.
const SEED: u64 = 0x6c61_6767_6172_6421;

/// Recordings of a series, and options.
#[derive(Clone, Debug)]
pub struct SeriesQuestion {
    pub recordings: Vec<PathBuf>,
    /// Whether they are in the order of the series. Otherwise the start times set the order.
    pub is_in_order: bool,
    /// Level; `None`: chosen for each series.
    pub level: Option<Nanos>,
    /// The only service to analyse.
    pub service: Option<Service>,
    /// Maximum number of threads that read. The answer does not depend on it.
    pub threads: NonZeroUsize,
}

/// Answer of `laggard compare --over`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SeriesReport {
    /// Version of this layout.
    pub schema: u32,
    /// Load of all recordings.
    pub load: LoadLabel,
    /// The recordings, in the order of the series.
    pub recordings: Vec<SeriesRecording>,
    /// Whether there are enough recordings to show a change.
    pub is_enough: bool,
    /// One entry per series, the most direct service first.
    pub services: Vec<ServiceSeries>,
    /// Series that are left out, because a recording did not keep every wakeup above the
    /// level.
    pub left_out: Vec<Series>,
    /// Missing data, and other reasons to doubt the answer.
    pub notes: Vec<Note>,
}

/// Service and route.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Series {
    pub service: Service,
    /// Route from the timer interrupt to the service.
    pub route: Route,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SeriesRecording {
    pub path: String,
    /// Wall-clock time of its start, such as
    /// `2026-11-20T11:00:00+01:00[Europe/Berlin]`.
    pub recorded_at: String,
    /// Length.
    pub duration_ns: Nanos,
    pub kernel: String,
}

/// Service over the recordings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceSeries {
    pub service: Service,
    /// Route from the timer interrupt to the service.
    pub route: Route,
    pub level_ns: Nanos,
    /// Quantile that the level was chosen from; absent if the user set the level.
    pub share: Option<f64>,
    /// Late wakeups per recording.
    pub points: Vec<LateCount>,
    /// Changes, in the order of the series.
    pub changes: Vec<SeriesChange>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SeriesChange {
    /// Number of the first recording after the change, from 0.
    pub at: usize,
    /// Lower end of the 95 % interval of `at`.
    pub earliest: usize,
    /// Upper end.
    pub latest: usize,
    /// p-value of a series without a change, adjusted for the number of series.
    pub p: f64,
    /// Late wakeups between the previous change and this one.
    pub before: LateCount,
    /// Late wakeups between this change and the next.
    pub behind: LateCount,
    /// Rate after the change divided by the rate before; absent if zero wakeups were late before.
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval.
    pub ratio_low: f64,
    /// Upper end; absent if unbounded.
    pub ratio_high: Option<f64>,
    /// Whether wakeups are late more often after the change.
    pub is_worse: bool,
}

/// Finds changes in a series of recordings.
///
/// # Errors
/// If recordings differ in their plans, a recording is given twice, cannot be read or is
/// not trustworthy, or a figure is out of its range.
pub fn compare_series(question: &SeriesQuestion) -> Result<SeriesReport, CompareError> {
    let mut recordings = open(&question.recordings)?;
    have_rates(&recordings)?;
    refusal::check(&recordings, recordings.len(), question.service, false)?;
    if !question.is_in_order {
        recordings
            .sort_by(|recording, other| began(recording.manifest()).cmp(&began(other.manifest())));
    }
    let loaded = load(&recordings, question.threads)?;
    let mut lines = loaded.lines();
    lines.retain(|line| question.service.is_none_or(|only| only == line.0));
    let levels = lines.into_iter().filter_map(|line| {
        let chosen = chosen_level(&[&loaded], line).map(|(level, share)| (level, Some(share)));
        let level = question.level.map(|level| (level, None)).or(chosen)?;
        Some((line, level))
    });
    // The times of latencies below the floor are not in the recording.
    let is_kept = |(line, (level, _)): &((Service, Route), (Nanos, Option<f64>))| {
        let floor = Selection::new(&loaded, *line, None).floor();
        floor.unwrap_or_default() <= *level
    };
    let (levels, left_out): (Vec<_>, Vec<_>) = levels.partition(is_kept);
    let mut services = Vec::new();
    for &(line, (level, share)) in &levels {
        let late = Lateness::new(&loaded, line, level, RUN)?;
        services.push(ServiceSeries {
            service: line.0,
            route: line.1,
            level_ns: level,
            share,
            points: late.points(),
            changes: changes(&late, levels.len())?,
        });
    }
    Ok(SeriesReport {
        schema: SERIES_SCHEMA,
        load: loaded.label.clone(),
        recordings: viewed(&recordings, &loaded),
        is_enough: recordings.len() >= LEAST_SERIES,
        services,
        left_out: left_out
            .into_iter()
            .map(|((service, route), _)| Series { service, route })
            .collect(),
        notes: loaded.notes(),
    })
}

fn viewed(recordings: &[Recording], load: &Load) -> Vec<SeriesRecording> {
    let each = recordings.iter().zip(&load.runs);
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

/// Returns the changes of one of several services, which share the allowed error.
fn changes(late: &Lateness, services: usize) -> Result<Vec<SeriesChange>, CompareError> {
    // Half an event more, so that none has a logarithm, too.
    let rate = |recording_count: &RecordingCount| {
        ((recording_count.events + 0.5) / recording_count.exposure).ln()
    };
    let rates: Vec<f64> = late.counts.iter().map(rate).collect();
    let services = services.max(1) as f64;
    let points = change_points(&rates, MIN_PART, (1.0 - CONFIDENCE) / services, SEED)?;
    let mut changes = Vec::new();
    for (number, point) in points.iter().enumerate() {
        let from = number.checked_sub(1).map_or(0, |before| points[before].at);
        let to = points.get(number + 1).map_or(rates.len(), |next| next.at);
        let ratio = |before: &[RecordingCount], behind: &[RecordingCount]| {
            let points = compare_recordings(before, behind, MARGIN, CONFIDENCE)?;
            Ok::<_, CompareError>((points.comparison.ratio, points.dispersions))
        };
        let (counts, most) = (&late.counts, late.at_most());
        let (ratio_found, dispersions) = ratio(&counts[from..point.at], &counts[point.at..to])?;
        let is_worse = ratio_found.ratio.is_none_or(|ratio| ratio > 1.0);
        // An unknown outcome must not decide the verdict.
        let (turned, _) = if is_worse {
            ratio(&most[from..point.at], &counts[point.at..to])?
        } else {
            ratio(&counts[from..point.at], &most[point.at..to])?
        };
        if turned.ratio.is_some_and(|ratio| (ratio > 1.0) != is_worse) {
            continue;
        }
        let before = late.part(from..point.at, dispersions[0]);
        let behind = late.part(point.at..to, dispersions[1]);
        let change = if is_worse {
            Change::Worse
        } else {
            Change::Better
        };
        if is_contradicted(change, [&before, &behind], MARGIN) {
            continue;
        }
        changes.push(SeriesChange {
            at: point.at,
            earliest: point.between.0,
            latest: point.between.1,
            p: (point.p * services).min(1.0),
            before,
            behind,
            ratio: ratio_found.ratio,
            ratio_low: ratio_found.interval.low,
            ratio_high: Some(ratio_found.interval.high).filter(|high| high.is_finite()),
            is_worse,
        });
    }
    Ok(changes)
}
