//! Exported series, and the conversion of measurements into them.

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

/// Upper edges of the classic buckets, seconds. Native buckets are 88 times as fine.
const EDGES: [f64; 20] = [
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1,
    2e-1, 5e-1, 1.0, 10.0,
];
/// 64 buckets per octave, as in the histograms of a recording.
const SCHEMA: i8 = 6;
/// Maximum number of buckets of a native histogram before it becomes coarser: 16 octaves.
const MAX_BUCKETS: usize = 1_024;

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

/// Labels of a stage of the wakeup path, on all CPUs.
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
    let native = NativeHistogramConfig::with_schema(SCHEMA).max_buckets(MAX_BUCKETS);
    Histogram::new_classic_and_native(EDGES, native)
}

/// Registers series from rows: name, unit, series, and description.
macro_rules! register {
    ($registry:ident; $($name:literal, $unit:ident, $series:expr, $about:literal;)*) => {
        $(register!(@$unit $registry, $name, $about, $series.clone());)*
    };
    (@none $registry:ident, $name:literal, $about:literal, $series:expr) => {
        $registry.register($name, $about, $series)
    };
    (@$unit:ident $registry:ident, $name:literal, $about:literal, $series:expr) => {
        $registry.register_with_unit($name, $about, Unit::$unit, $series)
    };
}

/// All series.
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
    /// Caveats that have a series.
    doubts: BTreeSet<CaveatLabels>,
    period: Value,
    pub(crate) store: StoreSeries,
    culprits: Culprits,
    /// Lines of the current piece, and the interrupts of each CPU.
    lines: Vec<ServedLine>,
    irqs: BTreeMap<Cpu, ServedLine>,
    /// Time of the last look for new events.
    looked: Instant,
    /// Losses and overhead of this piece that are already counted.
    counted: (Losses, OwnCost),
    cpu: ServedCpuTime,
}

/// CPU time of this process that is already counted.
#[derive(Debug, Default)]
struct ServedCpuTime {
    /// Time of measuring threads.
    measuring: Nanos,
    /// Time of threads that compute because a service needs load. It is not overhead.
    competing: Nanos,
    /// Time of all other threads.
    other: Nanos,
}

impl ServedCpuTime {
    /// Takes the total CPU time `whole` of all threads. Returns the new time of other threads.
    fn note_whole(&mut self, whole: Nanos) -> Nanos {
        let counted = self.measuring + self.competing + self.other;
        let new = whole.saturating_sub(counted);
        self.other += new;
        new
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct StoreSeries {
    /// 1 if the measurement is being recorded, otherwise 0.
    pub(crate) recording: Gauge,
    /// Size of the recordings.
    pub(crate) bytes: Gauge,
    /// Recordings that could not be started, or that ended early.
    pub(crate) failures: Counter,
    /// Recordings that were removed to limit the size.
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
        register! { registry;
            "latency", Seconds, new.latency, "Time from the timer expiry until the service ran; for a missed expiry, until the service ran next";
            "stage", Seconds, new.stages, "Time since the previous stage, on all CPUs";
            "largest_latency", Seconds, new.largest, "Max latency since the start of this measurement; an observation, not a bound";
            "missed_activations", none, new.missed, "Expiries that passed before the service ran";
            "losses", none, new.losses, "Stages and wakeups that laggard failed to observe, per reason";
            "lost_activations", none, new.lost, "Lost wakeups, which have no record";
            "episodes", none, new.episodes, "Analysed late wakeups per main cause: each new maximum, and at most 20 others per minute; rare names are `other`";
            "episode_causes", Seconds, new.causes, "Time of late wakeups per cause; rare names are `other`";
            "own_cpu", Seconds, new.cost, "CPU time of laggard: measuring threads, all other threads since its start, BPF programs";
            "measured", Seconds, new.measured, "Measured time; the rest of real time was not measured";
            "resident_memory", Bytes, new.resident, "Resident memory of laggard";
            "trusted", none, new.trusted, "1 if the figures of this measurement are trustworthy, otherwise 0";
            "caveat_info", none, new.caveats, "Warnings about the figures; `laggard doctor` explains them";
            "period", Seconds, new.period, "Mean time between two wakeups of a service on a CPU";
            "measuring", none, new.measuring, "1 while measuring, 0 after a failure until the next attempt";
            "measuring_failures", none, new.failures, "Measurements that could not start, or ended unexpectedly";
            "late_actions", none, new.late_actions, "Actions of --on-late on late wakeups, per result: done, failed or skipped";
            "build_info", none, build, "This program";
        }
        let series = &mut registry;
        if has_store {
            new.store.register(series);
        }
        if let Some(otlp) = otlp {
            otlp.register(series);
        }
        new.registry = Arc::new(registry);
        new
    }

    /// Returns all series. The caller can format them while measuring continues.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }

    /// Starts a measurement that `manifest` describes.
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
        // All series start at zero, because a rate needs a first value.
        for (reason, _) in Losses::default().iter() {
            self.losses.get_or_create_owned(&reason_labels(reason));
        }
    }

    fn line(&self, line: Line) -> ServedLine {
        let mut new = self.interrupts(line);
        new.missed = self.missed.get_or_create_owned(&line.into());
        // A silent thread stays silent in the next piece.
        if let Some(before) = self.lines.iter().find(|before| before.line == line) {
            let silent = self.looked.saturating_duration_since(before.heard);
            new.heard = new.heard.checked_sub(silent).unwrap_or(new.heard);
        }
        new
    }

    /// Interrupts do not have missed expiries. Their lines count them.
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

    /// Counts the events of `batch`.
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

    /// Returns the line that has been silent for the longest time until `now`, and that time.
    pub(crate) fn most_silent(&self, now: Instant) -> Option<(Line, Duration)> {
        let since = |series: &ServedLine| now.saturating_duration_since(series.heard);
        let silences = self.lines.iter().map(|series| (series.line, since(series)));
        silences.max_by_key(|(_, silent)| *silent)
    }

    /// Counts a late wakeup. `/episodes` lists it under `number`.
    pub(crate) fn count_late(&mut self, late: &LateActivation, number: u64) {
        let now = Instant::now();
        let mut labels: Vec<CauseLabels> = Vec::new();
        for part in &late.causes {
            let cause = &part.without_place;
            let culprit = cause.culprit();
            let label = (self.culprits).label(cause.class, culprit.as_deref(), part.time, now);
            if let Some((class, culprit)) = label.replaced {
                let class = label_of(&class);
                let left = CauseLabels { class, culprit };
                self.causes.remove(&left);
                self.episodes.remove(&left);
                for culprit in labels.iter_mut().filter(|culprit| **culprit == left) {
                    culprit.culprit = OTHER.into();
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

    /// Counts the new losses of this piece.
    pub(crate) fn note_losses(&mut self, losses: Losses) {
        let new = losses.since(&self.counted.0);
        for (reason, count) in new.iter().filter(|(_, count)| *count > 0) {
            let series = self.losses.get_or_create_owned(&reason_labels(reason));
            series.inc_by(count);
        }
        self.lost.inc_by(new.activations());
        self.counted.0 = losses;
    }

    /// Counts the new overhead of this piece, and updates the memory in use.
    pub(crate) fn note_cost(&mut self, cost: &OwnCost) {
        let new = cost.since(&self.counted.1);
        let programs = new.programs.iter();
        let bpf = programs.fold(Nanos::ZERO, |sum, program| sum + program.run_ns);
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

    /// Counts the CPU time of all threads that do not measure. This includes the start and end of a
    /// piece, and all work between pieces.
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

    /// Notes that measuring has started.
    pub(crate) fn note_begun(&self) {
        self.measuring.set(1);
    }

    /// Notes that measuring could not start, or ended without a request.
    pub(crate) fn note_failure(&mut self) {
        self.note_cpu_time();
        self.measuring.set(0);
        self.failures.inc();
        self.store.recording.set(0);
    }

    /// Sets whether the figures of this piece are trustworthy.
    pub(crate) fn note_trust(&self, trust: &Trust) {
        self.trusted.set(i64::from(*trust == Trust::Good));
    }

    /// Returns the mean time between two wakeups of a service on a CPU.
    pub(crate) fn period(&self) -> Duration {
        Duration::try_from_secs_f64(self.period.get()).unwrap_or_default()
    }

    /// Sets the current caveats.
    pub(crate) fn note_caveats(&mut self, caveats: &[Caveat]) {
        let labels = |caveat: &Caveat| CaveatLabels {
            kind: label_of(&caveat.kind),
        };
        let now: BTreeSet<CaveatLabels> = caveats.iter().map(labels).collect();
        // A scrape during the change must see caveats that stay.
        for gone in self.doubts.difference(&now) {
            self.caveats.remove(gone);
        }
        for caveat in &now {
            self.caveats.get_or_create_owned(caveat).set(1);
        }
        self.doubts = now;
    }
}

impl StoreSeries {
    fn register(&self, registry: &mut Registry) {
        register! { registry;
            "store_recording", none, self.recording, "1 while recording, 0 if the store cannot be written";
            "store_size", Bytes, self.bytes, "Size of the recordings in the store";
            "store_failures", none, self.failures, "Recordings that could not be started, or that ended early";
            "store_removed", none, self.removed, "Recordings that were removed to limit the size of the store, oldest first";
        }
    }
}

/// Formats the series as `OpenMetrics` 1.0 text: histograms with classic buckets.
///
/// # Errors
/// No known cause: the output is written to memory.
pub(crate) fn as_text(registry: &Registry) -> anyhow::Result<String> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}

/// Formats the series as Prometheus protocol buffers: histograms also have native buckets.
///
/// # Errors
/// No known cause: the output is written to memory.
pub(crate) fn as_protobuf(registry: &Registry) -> anyhow::Result<Vec<u8>> {
    Ok(encode_to_vec(registry)?)
}

fn reason_labels(reason: laggard_model::LossReason) -> ReasonLabels {
    ReasonLabels {
        reason: label_of(&reason),
    }
}

/// Returns the name of the value in the JSON of recordings.
pub(crate) fn label_of(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => unreachable!("an enumeration without fields is a text in JSON"),
    }
}

#[cfg(test)]
mod tests;
