//! `laggard show --intervals`: the times between the runs of each service.

#![allow(
    clippy::disallowed_macros,
    reason = "`show --intervals` still has sentences"
)]

use std::num::NonZeroUsize;

use laggard_analyze::distribution::{Between, LineIntervals, RunIntervals};
use laggard_model::name::line_name;
use laggard_model::text::count;
use laggard_model::{Caveat, CaveatKind, Keep, Line, Manifest, Nanos};
use laggard_record::{Columns, Recording};
use schemars::JsonSchema;
use serde::Serialize;

use crate::scan::scan;

/// The version of `show --intervals --json`.
pub const INTERVALS_SCHEMA: u32 = 1;
/// The narrowest and the widest bin.
pub const BINS: (Nanos, Nanos) = (Nanos::from_us(1), Nanos::from_secs(1));

/// The intervals of several recordings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct IntervalsReport {
    /// The version of this layout.
    pub schema: u32,
    /// One entry a recording.
    pub recordings: Vec<RecordingIntervals>,
}

/// The times between the runs of each line: the value that all views show.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RecordingIntervals {
    /// The recording.
    pub path: String,
    /// What is counted.
    pub counted: CountedInterval,
    /// The width of a bin.
    pub bin_ns: Nanos,
    /// Every line, in the order of the manifest.
    pub lines: Vec<IntervalRow>,
    /// What to know of these figures, in plain words.
    pub sentences: Vec<String>,
    /// What is missing.
    pub shortfalls: Vec<Caveat>,
}

/// What is counted of two runs that follow each other.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedInterval {
    /// The time from the one to the other.
    Interval,
    /// By how much that was longer than planned; negative: shorter.
    BeyondPlan,
}

/// The intervals of one line.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct IntervalRow {
    /// The line.
    pub line: Line,
    /// Its service and route, in one name.
    pub name: String,
    /// How many are counted.
    pub intervals: u64,
    /// Not counted, because what lies between was lost.
    pub unknown: u64,
    /// Activations for which the service did not run: each is within an interval.
    pub missed: u64,
    /// The shortest, ns; absent, as the next: there is none.
    pub min_ns: Option<i64>,
    /// The longest, ns.
    pub max_ns: Option<i64>,
    /// Their mean, ns.
    pub mean_ns: Option<f64>,
    /// Their standard deviation, ns; absent: there are fewer than two.
    pub deviation_ns: Option<f64>,
    /// Bins that are not empty, in their order.
    pub bins: Vec<GapBin>,
    /// Shorter than what bins tell apart: 2,000 of them below 0.
    pub shorter: u64,
    /// Longer than the 2,000 bins from 0 on.
    pub longer: u64,
}

/// How many intervals are in one bin.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct GapBin {
    /// Where it begins, ns; it ends before the next begins.
    pub from_ns: i64,
    /// How many.
    pub count: u64,
}

/// Why a recording does not tell intervals.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum IntervalsError {
    /// The samples between are not there.
    #[error(
        "`{0}` kept only the latest activations: from one of them to the next is no interval; \
         record without `--keep tail`"
    )]
    Tail(String),
    /// It is wider or narrower than can be.
    #[error("a bin of {0} is not from {from} to {to} wide; `100us` is what HotOS'99 has", from = BINS.0, to = BINS.1)]
    Width(Nanos),
}

/// The intervals of a recording, in bins of `bin`, read on `threads` threads at
/// most.
///
/// # Errors
/// When it did not keep every activation, or the bins are too wide or narrow.
pub fn intervals(
    recording: &Recording,
    bin: Nanos,
    threads: NonZeroUsize,
) -> Result<RecordingIntervals, IntervalsError> {
    if bin < BINS.0 || bin > BINS.1 {
        return Err(IntervalsError::Width(bin));
    }
    let manifest = recording.manifest();
    let path = recording.dir().display().to_string();
    if manifest.plan.keep == Keep::Tail {
        return Err(IntervalsError::Tail(path));
    }
    let counted = counted(manifest);
    let between = match counted {
        CountedInterval::Interval => Between::Runs,
        CountedInterval::BeyondPlan => Between::BeyondPlan,
    };
    let lines = manifest.lines.len();
    let scanned = scan(recording, threads, Columns::all(), || {
        RunIntervals::new(lines, between, bin)
    });
    let rows = manifest.lines.iter().zip(&scanned.gathered.lines);
    let rows: Vec<IntervalRow> = rows.map(|(&line, seen)| row(line, seen, bin)).collect();
    Ok(RecordingIntervals {
        path,
        counted,
        bin_ns: bin,
        sentences: sentences(manifest, counted, &rows),
        lines: rows,
        shortfalls: scanned.shortfalls,
    })
}

/// Where expiries were spread on purpose, intervals are the plan's; what is the
/// machine's is what it made of them.
fn counted(manifest: &Manifest) -> CountedInterval {
    if manifest.plan.dither && !is_external(manifest) {
        CountedInterval::BeyondPlan
    } else {
        CountedInterval::Interval
    }
}

/// Whether something else than our timers began the activations.
fn is_external(manifest: &Manifest) -> bool {
    let mut caveats = manifest.caveats.iter();
    caveats.any(|one| one.kind == CaveatKind::ExternalSource)
}

fn row(line: Line, seen: &LineIntervals, bin: Nanos) -> IntervalRow {
    let width = i64::try_from(bin.ns()).unwrap_or(i64::MAX);
    let bins = seen.bins.iter();
    IntervalRow {
        line,
        name: line_name(line.service, line.route),
        intervals: seen.count,
        unknown: seen.unknown,
        missed: seen.missed,
        min_ns: seen.extremes.map(|(least, _)| least),
        max_ns: seen.extremes.map(|(_, most)| most),
        mean_ns: seen.mean(),
        deviation_ns: seen.deviation(),
        bins: bins
            .map(|(bin, &count)| GapBin {
                from_ns: bin.saturating_mul(width),
                count,
            })
            .collect(),
        shorter: seen.outside.0,
        longer: seen.outside.1,
    }
}

fn sentences(manifest: &Manifest, counted: CountedInterval, rows: &[IntervalRow]) -> Vec<String> {
    let mut said = Vec::new();
    said.push(match counted {
        CountedInterval::Interval => "From one run of a service to its next.".to_owned(),
        CountedInterval::BeyondPlan => {
            "Expiries were spread on purpose, so that intervals are those of \
             the plan: this is by how much longer, or shorter, each was than planned. `record \
             --no-dither` is as periodic as the timers of HotOS'99."
                .into()
        }
    });
    let sum = |of: fn(&IntervalRow) -> u64| rows.iter().map(of).sum::<u64>();
    let (missed, unknown) = (sum(|row| row.missed), sum(|row| row.unknown));
    if missed > 0 {
        said.push(format!(
            "{} activation{} missed: the service ran once for several, and the interval to that \
             run has them in it.",
            count(missed),
            if missed == 1 { " was" } else { "s were" }
        ));
    }
    if unknown > 0 {
        said.push(format!(
            "{} interval{} not known, because an activation in between was lost.",
            count(unknown),
            if unknown == 1 { " is" } else { "s are" }
        ));
    }
    let is_planned = manifest.plan.rows.are_expiries() && !is_external(manifest);
    if counted == CountedInterval::Interval && is_planned {
        said.push(format!(
            "Planned every {}; a service that takes turns with others comes as many times less \
             often.",
            manifest.plan.periods()
        ));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_expiries_were_spread_what_is_counted_is_beyond_the_plan() {
        let mut manifest = laggard_made::late::manifest();
        assert!(manifest.plan.dither);
        assert_eq!(counted(&manifest), CountedInterval::BeyondPlan);

        manifest.caveats = vec![Caveat::new(CaveatKind::ExternalSource, "a device", "")];
        assert_eq!(counted(&manifest), CountedInterval::Interval);
        manifest.caveats.clear();
        manifest.plan.dither = false;
        assert_eq!(counted(&manifest), CountedInterval::Interval);

        let said = sentences(&manifest, CountedInterval::Interval, &[]).join(" ");
        assert!(said.contains("Planned every 1ms;"), "{said}");
    }
}
