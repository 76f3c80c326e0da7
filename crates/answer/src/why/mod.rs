//! `laggard why`: causes of late wakeups.

mod bug;
mod cause;
mod context;
mod error;
mod explained;
mod gain;
mod handlers;
mod late;
mod rhythms;
mod samples;
mod stacks;
mod wakeup;
mod watched;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use laggard_model::{LoadLabel, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

pub use bug::{Addressee, BUG_SCHEMA, BugReport, CallChain, Example, Gap, Machine, Moment, bug};
pub(crate) use cause::named;
pub use cause::{CauseShare, RhythmRow};
pub use context::{Layer, frames, layers};
pub use error::{BugError, EpisodesError};
pub(crate) use explained::late_by;
pub use explained::{
    Blamed, EpisodeCauses, Explained, ExplainedEpisode, RecordedEpisodes, SeriesMaxima,
};
pub use gain::{Gain, add_gains, leading};
pub use handlers::{HANDLERS_SCHEMA, HandlerRow, HandlersReport, HandlersVerdict, handlers};
pub use laggard_analyze::causes::{Context, CpuTimeline, Explanation, Part, Slice, Thread};
pub use late::{EpisodePart, EpisodeRow, FirstFix, LateWakeups, UntracedRow};
pub use samples::{SampleCount, sample_counts};
pub use stacks::{Frame, FrameKind, stacks};
pub use wakeup::{LateWakeup, LateWakeupCause, WAKEUP_SCHEMA};
pub use watched::{LineThreshold, Remark};

use crate::Shortfall;
use crate::qos::runs;

/// Version of the JSON layout of `why --json`.
pub const WHY_SCHEMA: u32 = 3;

/// Causes of the late wakeups of a recording, series by series.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WhyReport {
    /// Version of this layout.
    pub schema: u32,
    pub path: String,
    /// Name of the load. Absent: laggard ran none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Length of the recording.
    pub duration_ns: Nanos,
    /// Requested service. Absent: all.
    pub service: Option<Service>,
    /// Series with late wakeups, the most urgent thread first. Series without a threshold are last.
    pub series: Vec<LateWakeups>,
    /// Series without late wakeups.
    pub on_time: Vec<LateWakeups>,
    /// Episodes of all series whose trace data had been overwritten.
    pub overwritten: u64,
    /// Context switches that the flight recorder did not see (at least). Absent: not counted.
    pub unseen_switches: Option<u64>,
    /// Missing parts of the recording.
    pub shortfalls: Vec<Shortfall>,
}

/// A service and its route.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Series {
    pub service: Service,
    pub route: Route,
}

impl Explained<'_> {
    /// Ranks the causes of each series, and lists the first `top` of them.
    pub fn why(&self, top: usize) -> WhyReport {
        let late = self.late;
        let manifest = &late.manifest;
        let series = self.series().into_iter();
        let series = series.map(|series| {
            let only = self.only(Some(series.service));
            only.by(series.route).report(top)
        });
        let (mut series, on_time): (Vec<_>, Vec<_>) = series.partition(LateWakeups::has_late);
        series.sort_by_key(LateWakeups::is_without_threshold);
        WhyReport {
            schema: WHY_SCHEMA,
            path: late.path.clone(),
            load: LoadLabel::of(manifest.load.as_ref())
                .load()
                .map(str::to_owned),
            duration_ns: late.duration(),
            service: self.service,
            series,
            on_time,
            overwritten: late.notes.overwritten,
            unseen_switches: late.notes.unseen_switches,
            shortfalls: late.shortfalls.clone(),
        }
    }

    /// Returns the first series with late wakeups, which is what the first screen of the
    /// recording shows.
    pub fn foremost(&self) -> Option<Self> {
        let series = self.series().into_iter().filter_map(|series| {
            let only = self.only(Some(series.service)).by(series.route);
            let report = only.report(0);
            let order = report.is_without_threshold();
            report.has_late().then_some((order, only))
        });
        let first = series.min_by_key(|(order, _)| *order);
        first.map(|(_, only)| only)
    }

    /// Returns the series of this scope: the most urgent thread first, directly and via
    /// softirq, then the other series by urgency.
    fn series(&self) -> Vec<Series> {
        let lines = self.late.manifest.lines.iter();
        let lines: Vec<(Service, Route)> = lines
            .map(|line| (line.service, line.route))
            .filter(|(service, route)| self.includes(*service, *route))
            .collect();
        let first = runs(None, lines.clone()).map(|(service, _)| service);
        let series: BTreeSet<Series> = lines
            .into_iter()
            .map(|(service, route)| Series { service, route })
            .collect();
        let mut series: Vec<Series> = series.into_iter().collect();
        series.sort_by_key(|series| {
            let service = series.service;
            (
                Some(service) != first,
                !service.is_thread(),
                Reverse(service.urgency()),
                service,
                series.route,
            )
        });
        series
    }
}

impl LateWakeups {
    /// Returns whether no wakeup is late by a deadline: the largest latencies were kept.
    fn is_without_threshold(&self) -> bool {
        self.threshold().is_none()
    }

    /// Returns whether a wakeup was late, if known.
    fn has_late(&self) -> bool {
        let is_max_missing = |remark: &Remark| matches!(remark, Remark::MaxNotKept { .. });
        self.wakeups > 0 || self.remarks.iter().any(is_max_missing)
    }
}

#[cfg(test)]
mod tests;
