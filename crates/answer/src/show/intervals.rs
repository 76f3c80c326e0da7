//! Times between the runs of each service, for `laggard show --intervals`.

#![allow(clippy::disallowed_macros, reason = "an error has a text")]

use std::num::NonZeroUsize;

use laggard_analyze::distribution::{Between, LineIntervals, RunIntervals};
use laggard_model::{CaveatKind, Keep, Line, Manifest, Nanos};
use laggard_record::{Columns, Recording, Shortfall};
use schemars::JsonSchema;
use serde::Serialize;

use crate::scan::scan;

/// Version of the layout of `show --intervals --json`.
pub const INTERVALS_SCHEMA: u32 = 3;
/// Minimum and maximum width of a bin.
pub const BINS: (Nanos, Nanos) = (Nanos::from_us(1), Nanos::from_secs(1));

/// Intervals of several recordings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct IntervalsReport {
    /// Version of this layout.
    pub schema: u32,
    pub recordings: Vec<RecordingIntervals>,
}

/// Times between the runs of each series and CPU.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RecordingIntervals {
    pub path: String,
    pub counted: CountedInterval,
    /// Width of a bin.
    pub bin_ns: Nanos,
    /// Series and CPUs, in the order of the manifest.
    pub lines: Vec<IntervalRow>,
    /// Planned period, if these are intervals of laggard's timers without dither. A service that
    /// takes turns with others, or has a multiple of the period, runs less often.
    pub planned_ns: Option<Nanos>,
    /// Missing data.
    pub shortfalls: Vec<Shortfall>,
}

/// Counted quantity of two consecutive runs.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedInterval {
    /// Time between them.
    Interval,
    /// Time between them minus the planned time.
    BeyondPlan,
}

/// Intervals of a series on one CPU.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct IntervalRow {
    /// Service, route and CPU.
    pub line: Line,
    pub intervals: u64,
    /// Number of intervals that are not counted, because a wakeup in between was lost.
    pub unknown: u64,
    /// Number of wakeups whose service did not run. Each is within an interval.
    pub missed: u64,
    /// Minimum, ns; this and the next two are absent without an interval.
    pub min_ns: Option<i64>,
    /// Maximum, ns.
    pub max_ns: Option<i64>,
    /// Mean, ns.
    pub mean_ns: Option<f64>,
    /// Standard deviation, ns; absent if there are fewer than two.
    pub deviation_ns: Option<f64>,
    /// Bins that are not empty, in their order.
    pub bins: Vec<GapBin>,
    /// Number of intervals below the 2,000 bins under 0.
    pub shorter: u64,
    /// Number of intervals above the 2,000 bins over 0.
    pub longer: u64,
}

#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct GapBin {
    /// Start of the bin, ns, which belongs to it.
    pub from_ns: i64,
    /// Number of intervals.
    pub count: u64,
}

/// Error of the intervals of a recording.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum IntervalsError {
    /// The recording does not have every sample.
    #[error(
        "`{0}` has only the late wakeups, so the time between two of them is not an interval; \
         record without `--keep tail`"
    )]
    Tail(String),
    /// The width of a bin is out of range.
    #[error("--bins takes {from} to {to}, not {0}; HotOS'99 used `100us`", from = BINS.0, to = BINS.1)]
    Width(Nanos),
}

/// Returns the intervals of a recording in bins of `bin`. At most `threads` threads read.
///
/// # Errors
/// When the recording did not keep every wakeup, or the width of the bins is out of range.
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
    let rows: Vec<IntervalRow> = rows
        .map(|(&line, intervals)| row(line, intervals, bin))
        .collect();
    Ok(RecordingIntervals {
        path,
        counted,
        bin_ns: bin,
        planned_ns: planned(manifest, counted),
        lines: rows,
        shortfalls: scanned.shortfalls,
    })
}

/// Returns the counted quantity. With dither, the plan sets the intervals, and only the difference
/// is due to the machine.
fn counted(manifest: &Manifest) -> CountedInterval {
    if manifest.plan.dither && !is_external(manifest) {
        CountedInterval::BeyondPlan
    } else {
        CountedInterval::Interval
    }
}

/// Returns whether the period of another device, and not laggard's timers, woke the services.
fn is_external(manifest: &Manifest) -> bool {
    let mut caveats = manifest.caveats.iter();
    caveats.any(|caveat| caveat.kind == CaveatKind::ExternalSource)
}

/// Returns the planned period, if it determines the intervals.
fn planned(manifest: &Manifest, counted: CountedInterval) -> Option<Nanos> {
    let is_planned = counted == CountedInterval::Interval
        && manifest.plan.rows.are_expiries()
        && !is_external(manifest);
    is_planned.then_some(manifest.plan.period_ns)
}

fn row(line: Line, intervals: &LineIntervals, bin: Nanos) -> IntervalRow {
    let width = i64::try_from(bin.ns()).unwrap_or(i64::MAX);
    let bins = intervals.bins.iter();
    IntervalRow {
        line,
        intervals: intervals.count,
        unknown: intervals.unknown,
        missed: intervals.missed,
        min_ns: intervals.extremes.map(|(least, _)| least),
        max_ns: intervals.extremes.map(|(_, most)| most),
        mean_ns: intervals.mean(),
        deviation_ns: intervals.deviation(),
        bins: bins
            .map(|(bin, &count)| GapBin {
                from_ns: bin.saturating_mul(width),
                count,
            })
            .collect(),
        shorter: intervals.outside.0,
        longer: intervals.outside.1,
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::Caveat;

    use super::*;

    #[test]
    fn dithered_intervals_are_counted_without_the_plan() {
        let mut manifest = laggard_made::late::manifest();
        assert!(manifest.plan.dither);
        assert_eq!(counted(&manifest), CountedInterval::BeyondPlan);

        manifest.caveats = vec![Caveat::new(CaveatKind::ExternalSource, "a device", "")];
        assert_eq!(counted(&manifest), CountedInterval::Interval);
        manifest.caveats.clear();
        manifest.plan.dither = false;
        assert_eq!(counted(&manifest), CountedInterval::Interval);

        let period = planned(&manifest, CountedInterval::Interval);
        assert_eq!(period, Some(Nanos::from_ms(1)));
    }
}
