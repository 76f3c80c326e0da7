//! `laggard why`: who made activations late.

mod bug;
mod context;
mod explained;
mod handlers;
mod rhythms;
mod stacks;
mod watched;
mod words;
mod worth;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use laggard_analyze::causes::{RankedCause, Ranking, Rhythm, Signature, rank};
use laggard_model::name::{self, cause_words};
use laggard_model::{
    Activity, Because, Cause, CauseClass, Caveat, Cpu, GroupQuota, Line, Manifest, Nanos, Service,
    Stage, Symbols,
};
use schemars::JsonSchema;
use serde::Serialize;

pub use bug::{BUG_SCHEMA, BugError, BugReport, CallChain, Example, Machine, Moment, bug};
pub use context::{frames, layers};
use explained::explanations;
pub use explained::{
    Blamed, EpisodeCauses, EpisodesError, Explained, ExplainedEpisode, RecordedEpisodes,
};
pub(crate) use explained::{evidence_remedy, late_by};
pub use handlers::{HANDLERS_SCHEMA, HandlerRow, HandlersReport, handlers};
pub use laggard_analyze::causes::{Context, CpuTimeline, Explanation, Part, Slice, Thread};
use rhythms::Rhythms;
pub use stacks::{Frame, FrameKind, stacks};
pub use words::{at_least, place};
pub use words::{leading, sentence};
use words::{own_share, sentences_of};
pub use worth::{Worth, weigh};

/// The version of `why --json`.
pub const WHY_SCHEMA: u32 = 1;
/// A rhythm is looked for in this many causes, those with most time: the more
/// there are, the clearer one must be to be told from chance. A rare but periodic one can be far from the top.
const RHYTHMS: usize = 16;

/// Who made activations late: the value that all views of `why` show.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WhyReport {
    /// The version of this layout.
    pub schema: u32,
    /// The recording.
    pub path: String,
    /// How long was recorded.
    pub duration_ns: Nanos,
    /// Only this service's episodes.
    pub service: Option<Service>,
    /// How many episodes are explained here.
    pub episodes: usize,
    /// Late wakeups: the episodes, expiries that passed during them, and wakeups without
    /// trace data.
    pub wakeups: u64,
    /// Those without trace data: their causes are unknown. `None`: all have trace data, or
    /// an earlier version recorded them and did not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untraced: Option<UntracedRow>,
    /// Late activations that were not kept, of all services.
    pub surplus: u64,
    /// Episodes whose evidence had been overwritten, of all services.
    pub overwritten: u64,
    /// Switches of threads that the flight recorder did not see, at least; `None`:
    /// not counted.
    pub unseen_switches: Option<u64>,
    /// Sum of the latencies of all these wakeups.
    pub total_ns: Nanos,
    /// The largest of them.
    pub largest_ns: Nanos,
    /// Whether the true largest is at least that, also without a cause: a service
    /// was still waiting when measuring ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub largest_is_at_least: bool,
    /// Causes, those with most time first.
    pub causes: Vec<CauseRow>,
    /// Causes that are not listed.
    pub more_causes: usize,
    /// From which latency on each line was late.
    pub thresholds: Vec<LineThreshold>,
    /// The largest episodes.
    pub largest: Vec<EpisodeRow>,
    /// The result in plain words.
    pub sentences: Vec<String>,
    /// Those of them that say what the causes do not tell: who was still
    /// waiting, what was not kept, what laggard took itself.
    #[serde(skip)]
    pub reservations: Vec<String>,
    /// What is missing.
    pub shortfalls: Vec<Caveat>,
}

/// Late wakeups without trace data.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct UntracedRow {
    /// Number of wakeups.
    pub wakeups: u64,
    /// Sum of their latencies.
    pub total_ns: Nanos,
    /// Share of the latencies of all late wakeups, 0 to 1.
    pub share: f64,
}

/// A cause over all episodes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CauseRow {
    /// What kind of thing.
    pub class: CauseClass,
    /// Who, in words.
    pub who: Option<String>,
    /// Threads that took part but do not tell this cause from others, those with most time
    /// first: the real-time threads that used up the CPU, or the threads that ran because of
    /// a group's weight.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contenders: Vec<String>,
    /// The control group whose CPU quota was used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<GroupQuota>,
    /// Whether it is a thread of the laggard that recorded, and so not the
    /// machine's doing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_ours: bool,
    /// The number of the interrupt, where it is one that has a number.
    #[serde(skip)]
    #[schemars(skip)]
    pub irq: Option<u32>,
    /// What `who` says beside names, or why it has none.
    #[serde(skip)]
    #[schemars(skip)]
    pub because: Option<Because>,
    /// On which CPUs: without those on which it took less than a tenth of what it
    /// took on the one with most.
    pub cpus: Vec<Cpu>,
    /// In how many episodes it took part.
    pub episodes: usize,
    /// In how many no other cause took more.
    pub first_in: usize,
    /// Episodes an hour.
    pub per_hour: f64,
    /// Late wakeups in which it took part: the episodes, and expiries that passed during
    /// them.
    pub wakeups: u64,
    /// Time in all of these wakeups.
    pub total_ns: Nanos,
    /// Share of the latencies of all late wakeups, with or without trace data, 0 to 1.
    pub share: f64,
    /// Most time in one.
    pub largest_ns: Nanos,
    /// The number of that one.
    pub largest_episode: u64,
    /// Whether it took at least these times: one of its episodes had not ended
    /// when measuring did.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_at_least: bool,
    /// The largest latency of any episode, had this cause taken no time.
    pub largest_without_ns: Nanos,
    /// Whether that is at least so much.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub largest_without_is_at_least: bool,
    /// How it comes again and again, where chance does not explain that.
    /// Looked for in the causes with most time.
    pub rhythm: Option<RhythmRow>,
    /// Levels with it and without it, for the leading causes.
    pub worth: Vec<Worth>,
}

/// How a cause comes again and again.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RhythmRow {
    /// From one time to the next.
    pub period_ns: Nanos,
    /// Standard error of that.
    pub period_error_ns: Option<Nanos>,
    /// How often it came when it was due.
    pub hits: usize,
    /// How often it was due, in the time that was looked at.
    pub due: usize,
    /// How likely chance alone is to give as clear a rhythm to any of the causes
    /// that were searched.
    pub p: f64,
    /// When it came first, since the start of the recording, where chance does
    /// not explain that it did not come before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none_before_ns: Option<Nanos>,
    /// When it came last, where chance does not explain that it did not come
    /// after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none_after_ns: Option<Nanos>,
}

/// From which latency on a line was late.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LineThreshold {
    /// The line.
    pub line: Line,
    /// `None`: it was not decided before the recording ended.
    pub threshold_ns: Option<Nanos>,
    /// How long after the start it was decided; until then only each new largest
    /// was kept, and what is beyond 10 ms. Absent: before the start, never, or
    /// not known (a recording of an earlier version).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_after_ns: Option<Nanos>,
    /// Late activations that were not kept with who caused them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surplus: Option<u64>,
    /// Those that were not kept because the threshold was not decided yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early: Option<u64>,
    /// The largest of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_largest_ns: Option<Nanos>,
}

/// One episode and its largest causes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct EpisodeRow {
    /// Its number.
    pub number: u64,
    /// Its line.
    pub line: Line,
    /// The programmed time, since the recording's start.
    pub after_start_ns: Nanos,
    /// Its latency.
    pub latency_ns: Nanos,
    /// Whether it was still waiting when measuring ended, and is at least so late.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_at_least: bool,
    /// Stages after the expiry.
    pub stages_ns: BTreeMap<Stage, Nanos>,
    /// Its parts: they add up to the latency.
    pub causes: Vec<Cause>,
    /// The largest of them in words.
    pub main: String,
}

/// Explains every episode, of `service` only if one is given, and ranks the
/// causes; the first `top` are listed.
#[cfg(test)]
fn why(late: &RecordedEpisodes, service: Option<Service>, top: usize) -> WhyReport {
    Explained::new(late, service).report(top)
}

impl Explained<'_> {
    /// Ranks the causes; the first `top` are listed.
    pub fn report(&self, top: usize) -> WhyReport {
        let (late, service) = (self.late, self.service);
        let symbols = &late.notes.symbols;
        let ranking = rank(explanations(&self.episodes), |culprit| {
            name::who(culprit, symbols)
        });
        let untraced = watched::untraced(late, service, self.route);
        let total = ranking.total + untraced.total_ns;
        let duration = late.duration();
        let ours = ours(&self.episodes, symbols);
        let irqs = irqs(&self.episodes, symbols);
        let reasons = reasons(&self.episodes, symbols);
        let contenders = contenders(&self.episodes, symbols);
        let quotas = quotas(&self.episodes, symbols);
        let searched = ranking.causes.iter().take(RHYTHMS);
        let searched = searched.map(|one| &one.signature);
        let whole = watched::all_kept(late, service);
        let plan = &late.manifest.plan;
        let rhythms = Rhythms::new(&self.episodes, symbols, searched, &whole, plan);
        let start = late.manifest.clock.start_ns;
        let rows: Vec<CauseRow> = ranking
            .causes
            .iter()
            .enumerate()
            .map(|(place, cause)| {
                let row = row(cause, &ranking, total, duration);
                let found = (place < RHYTHMS).then(|| rhythms.of(&cause.signature));
                CauseRow {
                    contenders: contenders
                        .get(&cause.signature)
                        .cloned()
                        .unwrap_or_default(),
                    quota: quotas.get(&cause.signature).cloned(),
                    is_ours: ours.contains(&cause.signature),
                    irq: irqs.get(&cause.signature).copied(),
                    because: reasons.get(&cause.signature).copied(),
                    rhythm: found.flatten().map(|found| RhythmRow::new(found, start)),
                    ..row
                }
            })
            .collect();
        let waiting = watched::still_waiting(&late.manifest, service);
        let untraced = (untraced.wakeups > 0).then(|| UntracedRow {
            wakeups: untraced.wakeups,
            total_ns: untraced.total_ns,
            share: ratio(untraced.total_ns.as_secs_f64(), total.as_secs_f64()),
        });
        let mut others: Vec<String> = own_share(&rows).into_iter().collect();
        others.extend(watched::sentences(
            late,
            service,
            ranking.episodes,
            ranking.largest,
        ));
        let found = sentences_of(&rows, &ranking);
        let sentences = [&waiting[..], &found, &others].concat();
        let mut largest: Vec<EpisodeRow> = self
            .episodes
            .iter()
            .map(|one| episode_row(one, &late.manifest, symbols))
            .collect();
        largest.sort_by_key(|row| std::cmp::Reverse(row.latency_ns));
        largest.truncate(top);
        WhyReport {
            schema: WHY_SCHEMA,
            path: late.path.clone(),
            duration_ns: duration,
            service,
            episodes: ranking.episodes,
            wakeups: ranking.wakeups + untraced.as_ref().map_or(0, |one| one.wakeups),
            untraced,
            surplus: late.notes.surplus,
            overwritten: late.notes.overwritten,
            unseen_switches: late.notes.unseen_switches,
            total_ns: total,
            largest_ns: ranking.largest,
            largest_is_at_least: ranking.is_at_least,
            more_causes: rows.len().saturating_sub(top),
            causes: rows.into_iter().take(top).collect(),
            thresholds: watched::lines(late),
            largest,
            sentences,
            reservations: [waiting, others].concat(),
            shortfalls: late.shortfalls.clone(),
        }
    }
}

/// The causes that are laggard's own threads.
fn ours(explained: &[ExplainedEpisode<'_>], symbols: &Symbols) -> BTreeSet<Signature> {
    let causes = explained.iter().flat_map(ExplainedEpisode::causes);
    causes
        .filter(|cause| cause.culprit.is_ours)
        .map(|cause| signature(cause, symbols))
        .collect()
}

/// The causes that are interrupts with a number.
fn irqs(explained: &[ExplainedEpisode<'_>], symbols: &Symbols) -> BTreeMap<Signature, u32> {
    let causes = explained.iter().flat_map(ExplainedEpisode::causes);
    causes
        .filter_map(|cause| match cause.culprit.activity? {
            Activity::Irq(number) => Some((signature(cause, symbols), number)),
            Activity::Vector(_)
            | Activity::Softirq(_)
            | Activity::Isr(_)
            | Activity::Dpc(_)
            | Activity::Hrtimer(_)
            | Activity::Timer(_)
            | Activity::Work(_)
            | Activity::Idle(_)
            | Activity::PageFault => None,
        })
        .collect()
}

/// What more there is to say of causes, or why they have no culprit.
fn reasons(explained: &[ExplainedEpisode<'_>], symbols: &Symbols) -> BTreeMap<Signature, Because> {
    let causes = explained.iter().flat_map(ExplainedEpisode::causes);
    causes
        .filter_map(|cause| Some((signature(cause, symbols), cause.culprit.because?)))
        .collect()
}

/// Threads that took part in causes without telling them apart, those with most time
/// first.
fn contenders(
    explained: &[ExplainedEpisode<'_>],
    symbols: &Symbols,
) -> BTreeMap<Signature, Vec<String>> {
    let mut times: BTreeMap<Signature, BTreeMap<&str, Nanos>> = BTreeMap::new();
    for cause in explained.iter().flat_map(ExplainedEpisode::causes) {
        if let Some(contender) = &cause.culprit.contender {
            let names = times.entry(signature(cause, symbols)).or_default();
            *names.entry(contender).or_default() += cause.time_ns;
        }
    }
    let names = |times: BTreeMap<&str, Nanos>| {
        let mut times: Vec<(&str, Nanos)> = times.into_iter().collect();
        times.sort_by_key(|(_, time)| Reverse(*time));
        times.into_iter().map(|(name, _)| name.to_owned()).collect()
    };
    let times = times.into_iter();
    times.map(|(cause, times)| (cause, names(times))).collect()
}

/// The quotas that are causes.
fn quotas(
    explained: &[ExplainedEpisode<'_>],
    symbols: &Symbols,
) -> BTreeMap<Signature, GroupQuota> {
    let causes = explained.iter().flat_map(ExplainedEpisode::causes);
    causes
        .filter_map(|cause| {
            let quota = symbols.quotas.get(&cause.culprit.group?)?;
            Some((signature(cause, symbols), quota.clone()))
        })
        .collect()
}

fn signature(cause: &Cause, symbols: &Symbols) -> Signature {
    Signature {
        class: cause.class,
        who: name::who(&cause.culprit, symbols),
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// A cause; `total` is the sum of the latencies of all late wakeups, with or without trace
/// data.
fn row(cause: &RankedCause, all: &Ranking, total: Nanos, duration: Nanos) -> CauseRow {
    let hours = duration.as_secs_f64() / 3_600.0;
    CauseRow {
        class: cause.signature.class,
        who: cause.signature.who.clone(),
        contenders: Vec::new(),
        quota: None,
        is_ours: false,
        irq: None,
        because: None,
        cpus: cause.cpus.clone(),
        episodes: cause.episodes,
        first_in: cause.first_in,
        per_hour: ratio(cause.episodes as f64, hours),
        wakeups: cause.wakeups,
        total_ns: cause.total,
        share: ratio(cause.total.as_secs_f64(), total.as_secs_f64()),
        largest_ns: cause.largest,
        largest_episode: cause.largest_episode,
        is_at_least: cause.is_at_least,
        largest_without_ns: cause.largest_without,
        largest_without_is_at_least: all.is_at_least,
        rhythm: None,
        worth: Vec::new(),
    }
}

impl RhythmRow {
    /// Of a recording that began at `start`.
    fn new(found: Rhythm, start: Nanos) -> Self {
        let since = |at: Nanos| at.saturating_sub(start);
        Self {
            period_ns: found.period,
            period_error_ns: found.period_error,
            hits: found.hits,
            due: found.due,
            p: found.p,
            none_before_ns: found.spell.from.map(since),
            none_after_ns: found.spell.to.map(since),
        }
    }
}

fn episode_row(
    explained: &ExplainedEpisode<'_>,
    manifest: &Manifest,
    symbols: &Symbols,
) -> EpisodeRow {
    let episode = explained.episode;
    EpisodeRow {
        number: episode.number,
        line: explained.line,
        after_start_ns: episode.expiry_ns.saturating_sub(manifest.clock.start_ns),
        latency_ns: episode.latency(),
        is_at_least: episode.censored,
        stages_ns: episode.stages.clone(),
        main: explained
            .causes()
            .first()
            .map(|cause| cause_words(cause, symbols))
            .unwrap_or_default(),
        causes: explained.causes().to_vec(),
    }
}

#[cfg(test)]
mod tests;
