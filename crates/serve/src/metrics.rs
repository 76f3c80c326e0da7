//! What is exported: every series, and how a measurement becomes them.

mod lines;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use laggard_answer::Trust;
use laggard_answer::live::LateActivation;
use laggard_model::{
    Batch, Caveat, Cpu, LateActionCounts, Line, Losses, Manifest, Nanos, OwnCost, STAGES,
};
use laggard_otlp::OtlpSeries;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::prometheus_protobuf::encode_to_vec;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::CounterWithExemplar;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, NativeHistogramConfig};
use prometheus_client::registry::{Registry, Unit};

use super::culprits::{Culprits, OTHER};
use lines::ServedLine;

/// Upper edges of the classic buckets, seconds. The native ones are 88 times as fine.
const EDGES: [f64; 20] = [
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1,
    2e-1, 5e-1, 1.0, 10.0,
];
/// 64 buckets an octave: what a recording's histograms have, too.
const SCHEMA: i8 = 6;
/// Buckets of a native histogram before it becomes coarser: 16 octaves.
const MOST_BUCKETS: usize = 1_024;

/// Of a line.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct LineLabels {
    service: String,
    route: String,
    cpu: u32,
}

impl From<Line> for LineLabels {
    fn from(line: Line) -> Self {
        Self {
            service: line.service.to_string(),
            route: line.route.to_string(),
            cpu: line.cpu.0,
        }
    }
}

/// Of a part of the way to a service, on all CPUs.
#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct StageLabels {
    service: String,
    route: String,
    stage: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ReasonLabels {
    reason: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct CauseLabels {
    class: String,
    culprit: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct EpisodeLabels {
    episode: u64,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct PartLabels {
    part: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct CaveatLabels {
    kind: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct BuildLabels {
    version: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct LateActionLabels {
    action: String,
    result: &'static str,
}

type Seconds = Counter<f64, AtomicU64>;
type Value = Gauge<f64, AtomicU64>;
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

fn histogram() -> Histogram {
    let native = NativeHistogramConfig::with_schema(SCHEMA).max_buckets(MOST_BUCKETS);
    Histogram::new_classic_and_native(EDGES, native)
}

/// Every series.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    latency: Histograms<LineLabels>,
    stages: Histograms<StageLabels>,
    missed: Family<LineLabels, Counter>,
    largest: Family<LineLabels, Value>,
    losses: Family<ReasonLabels, Counter>,
    lost: Counter,
    episodes: Family<CauseLabels, CounterWithExemplar<EpisodeLabels>>,
    causes: Family<CauseLabels, Seconds>,
    cost: Family<PartLabels, Seconds>,
    measured: Seconds,
    resident: Gauge,
    measuring: Gauge,
    failures: Counter,
    late_actions: Family<LateActionLabels, Counter>,
    trusted: Gauge,
    caveats: Family<CaveatLabels, Gauge>,
    /// Those that have a series.
    doubts: BTreeSet<CaveatLabels>,
    period: Value,
    pub(crate) store: StoreSeries,
    culprits: Culprits,
    /// Of the piece that is measured: its lines, and the interrupts of each CPU.
    lines: Vec<ServedLine>,
    irqs: BTreeMap<Cpu, ServedLine>,
    /// When was last looked for what came.
    looked: Instant,
    /// Of the piece: what was counted already.
    counted: (Losses, OwnCost),
    cpu: ServedCpuTime,
}

/// CPU time of this process that was counted so far.
#[derive(Debug, Default)]
struct ServedCpuTime {
    /// Of threads that measure.
    measuring: Nanos,
    /// Of threads that compute because a service needs that: no overhead.
    competing: Nanos,
    /// Of all other threads.
    other: Nanos,
}

impl ServedCpuTime {
    /// Takes in that all threads had used `whole`. Returns the time of other threads that
    /// was not counted yet.
    fn note_whole(&mut self, whole: Nanos) -> Nanos {
        let known = self.measuring + self.competing + self.other;
        let new = whole.saturating_sub(known);
        self.other += new;
        new
    }
}

/// What is said of the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreSeries {
    /// Whether what is measured is being recorded: 1 or 0.
    pub(crate) recording: Gauge,
    /// What the recordings in it take.
    pub(crate) bytes: Gauge,
    /// Recordings that could not be begun, or ended early.
    pub(crate) failures: Counter,
    /// Recordings that were removed to keep it small.
    pub(crate) removed: Counter,
}

impl Metrics {
    pub(crate) fn new(has_store: bool, otlp: Option<&OtlpSeries>) -> Self {
        let mut registry = Registry::with_prefix("laggard");
        let latency = Histograms::new_with_constructor(histogram as fn() -> Histogram);
        let stages = Histograms::new_with_constructor(histogram as fn() -> Histogram);
        let build = Family::<BuildLabels, Gauge>::default();
        build
            .get_or_create_owned(&BuildLabels {
                version: env!("CARGO_PKG_VERSION"),
            })
            .set(1);
        let mut new = Self {
            registry: Arc::default(),
            latency,
            stages,
            missed: Family::default(),
            largest: Family::default(),
            losses: Family::default(),
            lost: Counter::default(),
            episodes: Family::default(),
            causes: Family::default(),
            cost: Family::default(),
            measured: Seconds::default(),
            resident: Gauge::default(),
            measuring: Gauge::default(),
            failures: Counter::default(),
            late_actions: Family::default(),
            trusted: Gauge::default(),
            caveats: Family::default(),
            doubts: BTreeSet::new(),
            period: Value::default(),
            store: StoreSeries::default(),
            culprits: Culprits::new(Instant::now()),
            lines: Vec::new(),
            irqs: BTreeMap::new(),
            looked: Instant::now(),
            counted: (Losses::default(), OwnCost::default()),
            cpu: ServedCpuTime::default(),
        };
        let all = &mut registry;
        let seconds = || Unit::Seconds;
        all.register_with_unit(
            "latency",
            "From the programmed time until the service ran; of a missed activation, \
             until it was known to be late",
            seconds(),
            new.latency.clone(),
        );
        all.register_with_unit(
            "stage",
            "Time from the stage before, on all CPUs",
            seconds(),
            new.stages.clone(),
        );
        all.register_with_unit(
            "largest_latency",
            "Largest latency since this piece of measuring began; a measurement, not a bound",
            seconds(),
            new.largest.clone(),
        );
        all.register(
            "missed_activations",
            "Activations whose turn came and went before the service ran",
            new.missed.clone(),
        );
        all.register(
            "losses",
            "What laggard failed to see, by reason: a stage, or all of an activation",
            new.losses.clone(),
        );
        all.register(
            "lost_activations",
            "Activations that are missing altogether",
            new.lost.clone(),
        );
        all.register(
            "episodes",
            "Late activations that were looked at, by what took most of their time: new \
             largest ones, and at most 20 a minute besides; rare names are `other`",
            new.episodes.clone(),
        );
        all.register_with_unit(
            "episode_causes",
            "Time of late activations, by what took it; rare names are `other`",
            seconds(),
            new.causes.clone(),
        );
        all.register_with_unit(
            "own_cpu",
            "CPU time of laggard: threads that measure, all its other threads since it was \
             started, BPF programs",
            seconds(),
            new.cost.clone(),
        );
        all.register_with_unit(
            "measured",
            "How long was measured; what is missing to real time was not",
            seconds(),
            new.measured.clone(),
        );
        all.register_with_unit(
            "resident_memory",
            "Memory that laggard has now",
            Unit::Bytes,
            new.resident.clone(),
        );
        all.register(
            "trusted",
            "1 where nothing speaks against the figures of this piece of measuring, else 0",
            new.trusted.clone(),
        );
        all.register(
            "caveat_info",
            "What to doubt the figures for, as `laggard doctor` explains",
            new.caveats.clone(),
        );
        all.register_with_unit(
            "period",
            "Mean time between two activations of a service on a CPU",
            seconds(),
            new.period.clone(),
        );
        all.register(
            "measuring",
            "1 while it is measured, 0 where that failed and is to be tried again",
            new.measuring.clone(),
        );
        all.register(
            "measuring_failures",
            "How often measuring could not begin anew, or ended by itself",
            new.failures.clone(),
        );
        all.register(
            "late_actions",
            "Actions of --on-late on late wakeups, per result: done, failed or skipped",
            new.late_actions.clone(),
        );
        all.register("build_info", "This program", build);
        if has_store {
            new.store.register(all);
        }
        if let Some(otlp) = otlp {
            otlp.register(all);
        }
        new.registry = Arc::new(registry);
        new
    }

    /// All series, to be written without keeping anybody waiting.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }

    /// Begins a piece of measuring that `manifest` describes.
    pub(crate) fn begin(&mut self, manifest: &Manifest) {
        self.counted = (Losses::default(), OwnCost::default());
        self.note_cpu_time();
        let cpus = manifest.lines.iter().map(|line| line.cpu);
        let first = |cpu| manifest.lines.iter().find(|line| line.cpu == cpu);
        let irqs: Vec<Line> = cpus
            .filter_map(|cpu| first(cpu).map(|line| line.interrupts()))
            .collect();
        for gone in self.lines.iter().chain(self.irqs.values()) {
            if !manifest.lines.contains(&gone.line) && !irqs.contains(&gone.line) {
                self.largest.remove(&gone.line.into());
            }
        }
        self.lines = manifest.lines.iter().map(|&line| self.line(line)).collect();
        self.irqs = irqs
            .into_iter()
            .map(|line| (line.cpu, self.interrupts(line)))
            .collect();
        self.looked = Instant::now();
        self.period.set(manifest.plan.period_ns.as_secs_f64());
        self.note_caveats(&manifest.caveats);
        // From the start: a rate needs a zero to begin with.
        for (reason, _) in Losses::default().iter() {
            self.losses.get_or_create_owned(&reason_labels(reason));
        }
    }

    fn line(&self, line: Line) -> ServedLine {
        let mut new = self.interrupts(line);
        new.missed = self.missed.get_or_create_owned(&line.into());
        // A thread that does not run goes on not running from piece to piece.
        if let Some(before) = self.lines.iter().find(|before| before.line == line) {
            let silent = self.looked.saturating_duration_since(before.heard);
            new.heard = new.heard.checked_sub(silent).unwrap_or(new.heard);
        }
        new
    }

    /// Interrupts have no missed ones of their own: their lines have.
    fn interrupts(&self, line: Line) -> ServedLine {
        let latency = self.latency.get_or_create_owned(&line.into());
        ServedLine::new(line, latency, self.largest.clone())
    }

    /// Takes over the counts of the actions on late wakeups since the start of the program.
    pub(crate) fn note_late_actions(&self, actions: &[LateActionCounts]) {
        let mut totals = BTreeMap::<(&str, &'static str), u64>::new();
        for action in actions {
            for (result, count) in [
                ("done", action.done),
                ("failed", action.failed),
                ("skipped", action.skipped),
            ] {
                *totals.entry((&action.action, result)).or_default() += count;
            }
        }
        for ((action, result), total) in totals {
            let counter = self.late_actions.get_or_create_owned(&LateActionLabels {
                action: action.to_owned(),
                result,
            });
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }

    /// Counts what has come.
    pub(crate) fn count(&mut self, batch: &Batch) {
        self.looked = Instant::now();
        for row in 0..batch.len() {
            let Some(series) = self.lines.get_mut(usize::from(batch.line[row].0)) else {
                continue;
            };
            let read = batch.readings(row);
            series.count(read.own);
            if batch.missed[row] {
                series.missed.inc();
                continue;
            }
            if let Some(irq) = read.irq
                && let Some(series) = self.irqs.get_mut(&series.line.cpu)
            {
                series.count(irq);
            }
            for stage in STAGES {
                let Some(step) = batch.step(row, stage) else {
                    continue;
                };
                let line = series.line;
                series.stages[stage.index()]
                    .get_or_insert_with(|| {
                        self.stages.get_or_create_owned(&StageLabels {
                            service: line.service.to_string(),
                            route: line.route.to_string(),
                            stage: stage.name(),
                        })
                    })
                    .observe(step.as_secs_f64());
            }
        }
    }

    /// The line that nothing was heard of for longest, and for how long until `now`.
    pub(crate) fn most_silent(&self, now: Instant) -> Option<(Line, Duration)> {
        let since = |series: &ServedLine| now.saturating_duration_since(series.heard);
        let all = self.lines.iter().map(|series| (series.line, since(series)));
        all.max_by_key(|(_, silent)| *silent)
    }

    /// Counts a late activation, which `/episodes` lists by this number.
    pub(crate) fn count_late(&mut self, late: &LateActivation, number: u64) {
        let now = Instant::now();
        let mut labels: Vec<CauseLabels> = Vec::new();
        for cause in &late.causes {
            let who = cause.who_anywhere.as_deref();
            let label = self.culprits.label(cause.class, who, cause.time, now);
            if let Some((class, culprit)) = label.instead_of {
                let class = label_of(&class);
                let left = CauseLabels { class, culprit };
                self.causes.remove(&left);
                self.episodes.remove(&left);
                for one in labels.iter_mut().filter(|one| **one == left) {
                    one.culprit = OTHER.into();
                }
            }
            labels.push(CauseLabels {
                class: label_of(&cause.class),
                culprit: label.value,
            });
        }
        for (labels, cause) in labels.iter().zip(&late.causes) {
            let series = self.causes.get_or_create_owned(labels);
            series.inc_by(cause.time.as_secs_f64());
        }
        let first = labels.into_iter().next();
        let labels = first.unwrap_or_else(|| CauseLabels {
            class: "not_watched".into(),
            culprit: String::new(),
        });
        let exemplar = Some(EpisodeLabels { episode: number });
        let series = self.episodes.get_or_create_owned(&labels);
        series.inc_by(1, exemplar, None);
    }

    /// Counts what was lost so far in this piece.
    pub(crate) fn note_losses(&mut self, losses: Losses) {
        let new = losses.since(&self.counted.0);
        for (reason, count) in new.iter().filter(|(_, count)| *count > 0) {
            let series = self.losses.get_or_create_owned(&reason_labels(reason));
            series.inc_by(count);
        }
        self.lost.inc_by(new.activations());
        self.counted.0 = losses;
    }

    /// Counts what measuring cost so far in this piece, and reads what memory it has.
    pub(crate) fn note_cost(&mut self, cost: &OwnCost) {
        let new = cost.since(&self.counted.1);
        let programs = new.programs.iter();
        let bpf = programs.fold(Nanos::ZERO, |sum, one| sum + one.run_ns);
        self.cpu.measuring += new.measuring_cpu_ns;
        self.cpu.competing += new.competing_cpu_ns;
        self.count_cpu_time("measuring", new.measuring_cpu_ns);
        self.count_cpu_time("bpf", bpf);
        self.note_cpu_time();
        self.measured.inc_by(new.wall_ns.as_secs_f64());
        self.counted.1 = cost.clone();
        if let Some(bytes) = super::resident::bytes() {
            self.resident.set(bytes);
        }
    }

    /// Counts the CPU time of all threads that do not measure, whatever they do: also what
    /// a piece takes to begin and to end, and what is done between pieces.
    fn note_cpu_time(&mut self) {
        if let Some(whole) = super::resident::cpu_time() {
            let new = self.cpu.note_whole(whole);
            self.count_cpu_time("other", new);
        }
    }

    fn count_cpu_time(&self, part: &'static str, time: Nanos) {
        let series = self.cost.get_or_create_owned(&PartLabels { part });
        series.inc_by(time.as_secs_f64());
    }

    /// Measuring has begun.
    pub(crate) fn note_begun(&self) {
        self.measuring.set(1);
    }

    /// Measuring could not begin, or ended by itself.
    pub(crate) fn note_failure(&mut self) {
        self.note_cpu_time();
        self.measuring.set(0);
        self.failures.inc();
        self.store.recording.set(0);
    }

    /// Whether the figures of this piece can be trusted.
    pub(crate) fn note_trust(&self, trust: &Trust) {
        self.trusted.set(i64::from(*trust == Trust::Good));
    }

    /// Mean time between two activations of a service on a CPU.
    pub(crate) fn period(&self) -> Duration {
        Duration::try_from_secs_f64(self.period.get()).unwrap_or_default()
    }

    /// What there is to doubt now.
    pub(crate) fn note_caveats(&mut self, caveats: &[Caveat]) {
        let labels = |caveat: &Caveat| CaveatLabels {
            kind: label_of(&caveat.kind),
        };
        let now: BTreeSet<CaveatLabels> = caveats.iter().map(labels).collect();
        // Who asks meanwhile is told of those that stay.
        for gone in self.doubts.difference(&now) {
            self.caveats.remove(gone);
        }
        for one in &now {
            self.caveats.get_or_create_owned(one).set(1);
        }
        self.doubts = now;
    }
}

impl StoreSeries {
    fn register(&self, all: &mut Registry) {
        all.register(
            "store_recording",
            "1 while what is measured is recorded too, 0 where the store cannot be written",
            self.recording.clone(),
        );
        all.register_with_unit(
            "store_size",
            "What the recordings in the store take",
            Unit::Bytes,
            self.bytes.clone(),
        );
        all.register(
            "store_failures",
            "Recordings that could not be begun, or ended early",
            self.failures.clone(),
        );
        all.register(
            "store_removed",
            "Recordings that were removed, the oldest first, to keep the store small",
            self.removed.clone(),
        );
    }
}

/// As text, `OpenMetrics` 1.0: histograms with their classic buckets.
///
/// # Errors
/// None that is known: memory is written to.
pub(crate) fn as_text(registry: &Registry) -> anyhow::Result<String> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}

/// As Prometheus' protocol buffers: histograms with native buckets too.
///
/// # Errors
/// None that is known: memory is written to.
pub(crate) fn as_protobuf(registry: &Registry) -> anyhow::Result<Vec<u8>> {
    Ok(encode_to_vec(registry)?)
}

fn reason_labels(reason: laggard_model::LossReason) -> ReasonLabels {
    ReasonLabels {
        reason: label_of(&reason),
    }
}

/// The name that a recording's JSON has for it.
pub(crate) fn label_of(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => unreachable!("an enumeration without fields is a text in JSON"),
    }
}

#[cfg(test)]
mod tests;
