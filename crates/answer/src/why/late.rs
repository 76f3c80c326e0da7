//! Late wakeups of a series, or of all series: their causes and thresholds.

use std::collections::BTreeMap;

use laggard_analyze::causes::rank;
use laggard_model::name;
use laggard_model::{
    CauseClass, Line, Manifest, NamedCause, Nanos, Route, Service, Stage, Symbols,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::cause::{Details, named, ratio};
use super::explained::explanations;
use super::rhythms::Rhythms;
use super::watched::{self, LineThreshold, Remark};
use super::{CauseShare, Explained, ExplainedEpisode, RhythmRow};
use crate::remedy::{Fix, fix_on};

/// Number of causes, ordered by time, that are searched for a period. A rare but periodic cause can
/// be far from the top, but each further one makes chance more likely.
const MAX_SEARCHED: usize = 16;

/// A fix must lower the maximum by this share of it.
const MIN_EFFECT: f64 = 0.05;
/// Least share of the latency of a first fix that does not lower the maximum.
const MIN_LEADING_SHARE: f64 = 0.1;
/// A cause with this share of the latency or more precedes a cause with `DOMINANT_RATIO` times
/// less, even if the maximum is lower without the latter.
const DOMINANT_SHARE: f64 = 0.5;
const DOMINANT_RATIO: f64 = 10.0;

/// Late wakeups of one series, or of all.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LateWakeups {
    /// The service. Absent: all services.
    pub service: Option<Service>,
    /// The route. Absent: all routes.
    pub route: Option<Route>,
    /// Late wakeups with trace data, without expiries that passed during them.
    pub episodes: usize,
    /// Late wakeups: the episodes, expiries that passed during them, and wakeups without
    /// trace data.
    pub wakeups: u64,
    /// Late wakeups without trace data, whose causes are unknown. Absent: all have trace
    /// data, or an earlier version recorded them and did not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untraced: Option<UntracedRow>,
    /// Sum of the latencies of all these wakeups.
    pub total_ns: Nanos,
    /// Whether the number and the sum are lower bounds, because trace data is missing from
    /// the recording.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_incomplete: bool,
    /// Maximum latency of the wakeups with trace data.
    pub largest_ns: Nanos,
    /// Whether the maximum is a lower bound, also without any cause: a thread was still
    /// waiting when the measurement ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub largest_is_at_least: bool,
    /// Maximum latency of all samples of the series. Absent: the samples were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_max_ns: Option<Nanos>,
    /// Causes, ordered by time.
    pub causes: Vec<CauseShare>,
    /// Number of causes that are not listed.
    pub more_causes: usize,
    /// Fix against the cause that takes most of the latency, or that lowers the maximum most.
    /// Absent: no known fix has an effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_fix: Option<FirstFix>,
    /// Latency thresholds: one entry per CPU.
    pub thresholds: Vec<LineThreshold>,
    /// Episodes with the largest latencies.
    pub largest: Vec<EpisodeRow>,
    /// Limits of the ranking: gaps, doubts, and time of laggard itself.
    pub remarks: Vec<Remark>,
}

/// Late wakeups without trace data.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct UntracedRow {
    pub wakeups: u64,
    /// Sum of their latencies.
    pub total_ns: Nanos,
    /// Share of the latencies of all late wakeups, 0 to 1.
    pub share: f64,
}

/// Fix to try first, and its cause.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FirstFix {
    /// Position of the cause in the ranking, from 1.
    pub number: usize,
    #[serde(flatten)]
    pub cause: NamedCause,
    /// Threads that took part without being the cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contenders: Vec<String>,
    /// Share of the latency that the cause takes, 0 to 1.
    pub share: f64,
    pub fix: Fix,
    /// Maximum latency without the time of the cause.
    pub largest_without_ns: Nanos,
}

/// Latency and main cause of an episode.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct EpisodeRow {
    /// Number of the episode.
    pub number: u64,
    /// Its series.
    pub line: Line,
    /// The programmed time, since the start of the recording.
    pub after_start_ns: Nanos,
    pub latency_ns: Nanos,
    /// Whether the thread was still waiting when the measurement ended, so that the latency
    /// is a lower bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_at_least: bool,
    /// Stages, as times since the expiry.
    pub stages_ns: BTreeMap<Stage, Nanos>,
    /// Parts of the latency, which add up to it.
    pub parts: Vec<EpisodePart>,
}

/// Time that a cause took in an episode.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct EpisodePart {
    #[serde(flatten)]
    pub cause: NamedCause,
    pub took_ns: Nanos,
}

impl Explained<'_> {
    /// Ranks the causes of these episodes. Lists the first `top` of them.
    pub fn report(&self, top: usize) -> LateWakeups {
        let late = self.late;
        let symbols = &late.notes.symbols;
        let manifest = &late.manifest;
        let mut ranking = rank(explanations(&self.episodes), |culprit| {
            name::who(culprit, symbols)
        });
        // No fix lowers the max below the wakeups that were in time.
        let in_time = watched::in_time_max(self).unwrap_or_default();
        for cause in &mut ranking.causes {
            cause.largest_without = cause.largest_without.max(in_time.min(ranking.largest));
        }
        let untraced = watched::untraced(self, &ranking);
        let total = ranking.total + untraced.total_ns;
        let duration = late.duration();
        let mut details = Details::by_cause(&self.episodes, symbols);
        let searched = ranking.causes.iter().take(MAX_SEARCHED);
        let searched = searched.map(|cause| &cause.cause);
        let whole = watched::all_kept(self);
        let rhythms = Rhythms::new(&self.episodes, symbols, searched, &whole, &manifest.plan);
        let start = manifest.clock.start_ns;
        let mut causes: Vec<CauseShare> = Vec::new();
        for (at, cause) in ranking.causes.iter().enumerate() {
            let details = details.remove(&cause.cause).unwrap_or_default();
            let mut share = CauseShare::new(cause, &ranking, &details, total, duration);
            let rhythm = (at < MAX_SEARCHED).then(|| rhythms.get(&cause.cause));
            share.rhythm = rhythm.flatten().map(|rhythm| RhythmRow::new(rhythm, start));
            share.fix = fix_on(&share, &manifest.host, &manifest.plan, &manifest.cost);
            causes.push(share);
        }
        let remarks = watched::remarks(self, &causes, &ranking);
        let mut largest: Vec<&ExplainedEpisode<'_>> = self.episodes.iter().collect();
        largest.sort_by_key(|explained| std::cmp::Reverse(explained.episode.latency()));
        largest.truncate(top);
        let largest = largest.into_iter();
        let largest = largest.map(|episode| EpisodeRow::new(episode, manifest, symbols));
        LateWakeups {
            service: self.service,
            route: self.route,
            episodes: ranking.episodes,
            wakeups: ranking.wakeups + untraced.wakeups,
            untraced: (untraced.wakeups > 0).then(|| UntracedRow {
                wakeups: untraced.wakeups,
                total_ns: untraced.total_ns,
                share: ratio(untraced.total_ns.as_secs_f64(), total.as_secs_f64()),
            }),
            total_ns: total,
            is_incomplete: watched::is_incomplete(self),
            largest_ns: ranking.largest,
            largest_is_at_least: ranking.is_at_least,
            measured_max_ns: watched::measured_max(self),
            first_fix: FirstFix::new(&causes, ranking.largest),
            more_causes: causes.len().saturating_sub(top),
            causes: causes.into_iter().take(top).collect(),
            thresholds: watched::thresholds(self),
            largest: largest.collect(),
            remarks,
        }
    }
}

impl LateWakeups {
    /// Returns the smallest and the largest threshold.
    pub fn threshold(&self) -> Option<(Nanos, Nanos)> {
        let thresholds = self.thresholds.iter();
        let thresholds = thresholds.filter_map(|line| line.threshold_ns);
        Some((thresholds.clone().min()?, thresholds.max()?))
    }

    /// Removes causes with less than `share` of the latency from the list, except for the
    /// first.
    pub fn hide_below(&mut self, share: f64) {
        let listed = self.causes.len();
        while let [_, .., last] = self.causes.as_slice()
            && last.share < share
        {
            self.causes.pop();
        }
        self.more_causes += listed - self.causes.len();
    }

    /// Keeps the first `max` causes in the list.
    pub fn keep_first(&mut self, max: usize) {
        let listed = self.causes.len();
        self.causes.truncate(max);
        self.more_causes += listed - self.causes.len();
    }

    /// Counts late wakeups that were not kept. `None`: not known per series.
    pub fn surplus(&self) -> Option<u64> {
        let mut lines = self.thresholds.iter();
        lines.try_fold(0, |sum, line| Some(sum + line.surplus?))
    }
}

impl CauseShare {
    /// Returns whether a fix of the machine is known. laggard's threads are not part of the
    /// machine, and a look at an unexplained cause does not remove it.
    pub(crate) fn is_fixable(&self) -> bool {
        let has_remedy = self.fix.as_ref().is_some_and(|fix| fix.remedy().is_some());
        !self.is_ours && self.cause.class != CauseClass::Unexplained && has_remedy
    }

    /// Returns the cause to fix first, of causes ordered by their time. This is `lowest`: the
    /// maximum without it is lowest. If it is missing, returns the fixable cause that takes most of
    /// the latency. Returns this cause also if `lowest` takes little of the latency in comparison.
    pub(crate) fn first<'a>(causes: &'a [Self], lowest: Option<&'a Self>) -> Option<&'a Self> {
        let leading = causes.iter().find(|cause| cause.is_fixable());
        let (Some(leading), Some(lowest)) = (leading, lowest) else {
            return leading.filter(|cause| cause.share >= MIN_LEADING_SHARE);
        };
        let is_dominant =
            leading.share >= DOMINANT_SHARE && leading.share >= DOMINANT_RATIO * lowest.share;
        Some(if is_dominant { leading } else { lowest })
    }

    /// Returns whether the maximum is notably lower without the cause.
    pub(crate) fn lowers(&self, max: Nanos) -> bool {
        self.largest_without_ns.as_f64() <= max.as_f64() * (1.0 - MIN_EFFECT)
    }
}

impl FirstFix {
    /// Chooses the cause to fix first, of causes ordered by their time.
    fn new(causes: &[CauseShare], largest: Nanos) -> Option<Self> {
        let lowering = causes
            .iter()
            .filter(|cause| cause.is_fixable() && cause.lowers(largest));
        let lowest = lowering.min_by_key(|cause| cause.largest_without_ns);
        let cause = CauseShare::first(causes, lowest)?;
        Some(Self {
            number: causes.iter().position(|row| row.cause == cause.cause)? + 1,
            cause: cause.cause.clone(),
            contenders: cause.contenders.clone(),
            share: cause.share,
            fix: cause.fix.clone()?,
            largest_without_ns: cause.largest_without_ns,
        })
    }
}

impl EpisodeRow {
    pub(super) fn new(
        explained: &ExplainedEpisode<'_>,
        manifest: &Manifest,
        symbols: &Symbols,
    ) -> Self {
        let episode = explained.episode;
        let parts = explained.causes().iter().map(|cause| EpisodePart {
            cause: named(cause, symbols),
            took_ns: cause.time_ns,
        });
        Self {
            number: episode.number,
            line: explained.line,
            after_start_ns: episode.expiry_ns.saturating_sub(manifest.clock.start_ns),
            latency_ns: episode.latency(),
            is_at_least: episode.censored,
            stages_ns: episode.stages.clone(),
            parts: parts.collect(),
        }
    }
}
