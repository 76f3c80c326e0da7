//! Shares of causes in the late wakeups of a series.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use laggard_analyze::causes::{RankedCause, Ranking, Rhythm};
use laggard_model::{Activity, Cause, Cpu, Culprit, GroupQuota, NamedCause, Nanos, Symbols};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ExplainedEpisode, Gain};
use crate::remedy::Fix;

/// Share of a cause in the late wakeups of a series.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CauseShare {
    #[serde(flatten)]
    pub cause: NamedCause,
    /// Threads that took part without being the cause, ordered by time: the real-time threads that
    /// used up the CPU, or the threads that ran because of a group's weight.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contenders: Vec<String>,
    /// The control group whose CPU quota was used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<GroupQuota>,
    /// Whether the culprit is a thread of the laggard that recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_ours: bool,
    /// Number of the interrupt.
    #[serde(skip)]
    #[schemars(skip)]
    pub irq: Option<u32>,
    /// CPUs, except CPUs where it took less than a tenth of the time on the CPU with most.
    pub cpus: Vec<Cpu>,
    /// Episodes with the cause.
    pub episodes: usize,
    /// Episodes with this cause as the longest.
    pub first_in: usize,
    /// Episodes per hour.
    pub per_hour: f64,
    /// Late wakeups with the cause: the episodes, and expiries that passed during them.
    pub wakeups: u64,
    /// Time that it took in all of these wakeups.
    pub time_ns: Nanos,
    /// Share of the latency of all late wakeups of the series, with or without trace data,
    /// 0 to 1.
    pub share: f64,
    /// Most time in one wakeup.
    pub largest_ns: Nanos,
    /// Number of the episode with the longest time of the cause.
    pub largest_episode: u64,
    /// Whether the times are lower bounds: one of its episodes had not ended when the
    /// measurement did.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_at_least: bool,
    /// Maximum latency of the series without the time of this cause.
    pub largest_without_ns: Nanos,
    /// Whether that maximum is a lower bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub largest_without_is_at_least: bool,
    /// Period, if chance does not explain it. Only the causes with most time are searched.
    pub rhythm: Option<RhythmRow>,
    /// Fix against the cause. Absent: none is known.
    pub fix: Option<Fix>,
    /// Return levels with the cause and without it. Only the leading causes have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gains: Vec<Gain>,
}

/// Period of a cause.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RhythmRow {
    pub period_ns: Nanos,
    /// Standard error of the period.
    pub period_error_ns: Option<Nanos>,
    /// Number of times that the cause was seen when due.
    pub hits: usize,
    /// Number of times that it was due while the series was watched.
    pub due: usize,
    /// Probability that chance alone gives as clear a period to any of the causes that were
    /// searched.
    pub p: f64,
    /// First time, since the start of the recording. Absent if earlier times may be missing by
    /// chance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none_before_ns: Option<Nanos>,
    /// Last time. Absent if later times may be missing by chance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none_after_ns: Option<Nanos>,
}

impl RhythmRow {
    /// `start`: start of the recording.
    pub(super) fn new(rhythm: Rhythm, start: Nanos) -> Self {
        let since = |time: Nanos| time.saturating_sub(start);
        Self {
            period_ns: rhythm.period,
            period_error_ns: rhythm.period_error,
            hits: rhythm.hits,
            due: rhythm.due,
            p: rhythm.p,
            none_before_ns: rhythm.spell.from.map(since),
            none_after_ns: rhythm.spell.to.map(since),
        }
    }
}

impl CauseShare {
    /// `total` is the latency of all late wakeups of the series, with or without trace data.
    pub(super) fn new(
        cause: &RankedCause,
        ranking: &Ranking,
        details: &Details,
        total: Nanos,
        duration: Nanos,
    ) -> Self {
        let hours = duration.as_secs_f64() / 3_600.0;
        Self {
            cause: cause.cause.clone(),
            contenders: details.contenders(),
            quota: details.quota.clone(),
            is_ours: details.is_ours,
            irq: details.irq,
            cpus: cause.cpus.clone(),
            episodes: cause.episodes,
            first_in: cause.first_in,
            per_hour: ratio(cause.episodes as f64, hours),
            wakeups: cause.wakeups,
            time_ns: cause.total,
            share: ratio(cause.total.as_secs_f64(), total.as_secs_f64()),
            largest_ns: cause.largest,
            largest_episode: cause.largest_episode,
            is_at_least: cause.is_at_least,
            largest_without_ns: cause.largest_without,
            largest_without_is_at_least: ranking.is_at_least,
            rhythm: None,
            fix: None,
            gains: Vec::new(),
        }
    }
}

/// Properties of a cause that do not distinguish it.
#[derive(Default)]
pub(super) struct Details {
    is_ours: bool,
    irq: Option<u32>,
    contenders: BTreeMap<String, Nanos>,
    quota: Option<GroupQuota>,
}

impl Details {
    /// Collects the details of the causes of all episodes. A cause without details is absent,
    /// because naming it takes longer than all else.
    pub(super) fn by_cause(
        explained: &[ExplainedEpisode<'_>],
        symbols: &Symbols,
    ) -> BTreeMap<NamedCause, Self> {
        let mut sums: BTreeMap<NamedCause, Self> = BTreeMap::new();
        let causes = explained.iter().flat_map(ExplainedEpisode::causes);
        for cause in causes.filter(|cause| Self::has_any(&cause.culprit)) {
            let details = sums.entry(named(cause, symbols)).or_default();
            details.add(cause, symbols);
        }
        sums
    }

    const fn has_any(culprit: &Culprit) -> bool {
        culprit.is_ours
            || matches!(culprit.activity, Some(Activity::Irq(_)))
            || culprit.contender.is_some()
            || culprit.group.is_some()
    }

    fn add(&mut self, cause: &Cause, symbols: &Symbols) {
        let culprit = &cause.culprit;
        self.is_ours |= culprit.is_ours;
        if let Some(Activity::Irq(number)) = culprit.activity {
            self.irq = Some(number);
        }
        if let Some(contender) = &culprit.contender {
            let name = contender.to_string();
            *self.contenders.entry(name).or_default() += cause.time_ns;
        }
        if let Some(quota) = culprit.group.and_then(|group| symbols.quotas.get(&group)) {
            self.quota = Some(quota.clone());
        }
    }

    /// Returns the contenders, ordered by time.
    fn contenders(&self) -> Vec<String> {
        let mut times: Vec<(&String, &Nanos)> = self.contenders.iter().collect();
        times.sort_by_key(|(_, time)| Reverse(**time));
        times.into_iter().map(|(name, _)| name.clone()).collect()
    }
}

pub(crate) fn named(cause: &Cause, symbols: &Symbols) -> NamedCause {
    NamedCause::from_culprit(cause.class, &cause.culprit, symbols)
}

/// Returns a share of a whole, or 0 if the whole is 0.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
