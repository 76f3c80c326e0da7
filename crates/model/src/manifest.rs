//! Manifest: the plan of a recording, and its end.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    AskedApplication, Caveat, Contexts, Every, Host, Line, LossReason, Losses, Nanos, OwnCost,
    RowsOf, Stage, Throughput, TimerApi, UsagePattern,
};

/// Version of the layout that this program writes. Readers accept every version up to
/// their own. 2: closed segments are in a separate directory.
pub const SCHEMA_VERSION: u32 = 2;

/// End of a recording.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// The recording has not ended, or the program was killed.
    Running,
    /// The recording ended as planned.
    Complete,
    /// The user stopped it early (Ctrl-C or a termination signal).
    Interrupted,
    /// An error ended it; the data before it is valid.
    Failed {
        /// Error.
        error: String,
    },
}

/// Source of the stages.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// eBPF programs: every stage.
    Bpf,
    /// The kernel's events on Windows (ETW): the times when a thread became ready
    /// and was switched in.
    Etw,
    /// The kernel's tracepoints as performance events, without BPF: the stages of
    /// threads.
    Perf,
    /// No BPF: expiry and user stage only.
    User,
    /// The kernel's timerlat tracer alone, with two stages.
    Tracer,
    /// The driver `wdmlat.sys` of Windows alone: the start of its DPC and of its
    /// thread.
    Driver,
    /// A script: no real measurement.
    Fake,
    /// A trace that another program recorded.
    Imported,
}

/// Samples to keep.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// Every activation.
    #[default]
    All,
    /// Hourly histograms, the largest latencies per minute, and the tail.
    Tail,
}

/// Plan of the probe.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Plan")]
pub struct ProbePlan {
    /// Mean time between a line's expiries, except for lines of services in `every`. 0 if they are
    /// not planned (see `rows`).
    pub period_ns: Nanos,
    /// Services that are measured only at every n-th expiry; absent if none.
    #[serde(default, skip_serializing_if = "Every::is_all")]
    pub every: Every,
    /// Whether expiries are dithered so that no hidden tick stays undetected.
    pub dither: bool,
    /// Seed of the dither; the same seed gives the same timelines.
    pub seed: u64,
    /// Requested duration; `None` until stopped.
    pub duration_ns: Option<Nanos>,
    /// Activations later than this are exceedances.
    pub threshold_ns: Nanos,
    /// Samples to keep.
    pub keep: Keep,
    /// Whether CPUs were kept out of idle states during the measurement.
    #[serde(default)]
    pub held_awake: bool,
    /// Intermediate stages to stamp; absent for all possible ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Vec<Stage>>,
    /// Busy processes that competed for the CPU, and the services measured next to
    /// them; absent without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Contexts>,
    /// Windows timer of the threads; absent for the system's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<TimerApi>,
    /// Meaning of a row; absent for a planned expiry.
    #[serde(default, skip_serializing_if = "RowsOf::are_expiries")]
    pub rows: RowsOf,
}

impl ProbePlan {
    /// Range of periods of a recording.
    pub const PERIODS: (Nanos, Nanos) = (Nanos::from_us(10), Nanos::from_secs(10));

    /// Returns the periods of the services, in words: `1ms`, or
    /// `1ms, softirq and other 2ms, fifo:50 4ms`.
    #[must_use]
    pub fn periods(&self) -> String {
        let mut seldom: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (service, every) in self.every.iter() {
            seldom.entry(every).or_default().push(service.to_string());
        }
        let words = |(every, services): (u32, Vec<String>)| {
            format!(
                ", {} {}",
                services.join(" and "),
                self.period_ns * u64::from(every)
            )
        };
        let seldom: String = seldom.into_iter().map(words).collect();
        format!("{}{seldom}", self.period_ns)
    }

    /// Returns the meaning of the rows and their period, in words:
    /// `period 1ms (dithered)`.
    #[must_use]
    pub fn rhythm(&self) -> String {
        let dither = if self.dither {
            "dithered"
        } else {
            "not dithered"
        };
        let timer = self.timer.map(|timer| format!(", by {timer}"));
        let timer = timer.unwrap_or_default();
        let words = self.rows.words(self.period_ns);
        words.unwrap_or_else(|| format!("period {} ({dither}{timer})", self.periods()))
    }

    /// Returns the periods in short: `1ms`, or `1ms to 4ms`.
    #[must_use]
    pub fn pace(&self) -> String {
        match self.every.iter().map(|(_, every)| every).max() {
            None | Some(1) => self.period_ns.to_string(),
            Some(most) => format!("{} to {}", self.period_ns, self.period_ns * u64::from(most)),
        }
    }
}

impl Default for ProbePlan {
    /// Returns every service each millisecond, with the first of all seeds.
    fn default() -> Self {
        Self {
            period_ns: Nanos::from_ms(1),
            every: Every::default(),
            dither: true,
            seed: 1,
            duration_ns: None,
            threshold_ns: Nanos::from_ms(1),
            keep: Keep::All,
            held_awake: false,
            stages: None,
            contexts: None,
            timer: None,
            rows: RowsOf::Expiries,
        }
    }
}

/// Clock of all times in a recording.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Clock {
    /// Name, `CLOCK_MONOTONIC`.
    pub name: String,
    /// Start of the measurement, by this clock.
    pub start_ns: Nanos,
    /// End of the measurement; `None` while it runs or after a kill.
    pub end_ns: Option<Nanos>,
    /// Start by the wall clock, RFC 3339 with time zone.
    pub start_wall: String,
}

impl Clock {
    /// Creates `CLOCK_MONOTONIC`, for a recording that started at `start_ns`.
    #[must_use]
    pub fn monotonic(start_ns: Nanos, start_wall: impl Into<String>) -> Self {
        Self {
            name: "CLOCK_MONOTONIC".into(),
            start_ns,
            end_ns: None,
            start_wall: start_wall.into(),
        }
    }
}

/// Load during a recording.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LoadRun {
    /// Name of a built-in load, or the first word of the command.
    pub name: String,
    /// Complete command, if there is one.
    pub command: Vec<String>,
    /// Usage pattern, if known.
    pub usage: Option<UsagePattern>,
    /// Result of the load, if it ended before the recording.
    pub ended: Option<String>,
    /// Time of the start signal, `CLOCK_MONOTONIC`: the load was set up before the
    /// measurement, and started after its start, as in OSDI'99 2.2. Absent if it worked
    /// already when the measurement started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_ns: Option<Nanos>,
    /// Amount of work, if it was counted.
    #[serde(default)]
    pub throughput: Option<Throughput>,
}

/// Counts of a line's activations in closed segments, and of the rest of its plan.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct LineCount {
    /// Expiries that the service reached.
    pub served: u64,
    /// Missed expiries, which passed while the service was still busy.
    pub missed: u64,
    /// Missed expiries that were still waiting when the measurement ended; see
    /// [`crate::Activation::censored`].
    #[serde(default)]
    pub censored: u64,
    /// Completely lost, for any reason; by reason: [`Losses`].
    #[serde(default)]
    pub lost: u64,
    /// Expiries planned during the measurement: served + missed + lost in a recording
    /// that ended. Absent if unknown (an external source, a recording of an earlier
    /// version or one that did not end).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u64>,
    /// Waiting time of its thread. Absent unless laggard measured without BPF and without
    /// performance events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay: Option<RunDelay>,
}

/// Time that a thread was runnable and waited for a CPU, as the kernel counts it for every user.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct RunDelay {
    /// Sum of the waiting times.
    pub total_ns: Nanos,
    /// Number of times that the thread was switched in.
    pub switch_ins: u64,
}

impl LineCount {
    /// Counts an activation that is in the recording.
    pub const fn add(&mut self, missed: bool, censored: bool) {
        if missed {
            self.missed += 1;
        } else {
            self.served += 1;
        }
        if censored {
            self.censored += 1;
        }
    }
}

/// Account of a line's plan in addition to its activations.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// Expiries planned during the measurement; known at its end. Each is an
    /// activation, served or missed, or lost.
    pub planned: Option<u64>,
    /// Completely lost, for any reason.
    pub lost: u64,
    /// Losses by reason, including losses of a single stage.
    pub losses: Losses,
    /// Waiting time of its thread.
    pub run_delay: Option<RunDelay>,
}

impl Account {
    /// Counts a completely lost expiry.
    pub fn lose(&mut self, reason: LossReason) {
        self.lost += 1;
        self.losses.add_whole(reason);
    }
}

/// Closed segment.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct SegmentEntry {
    /// File name, relative to the recording's directory.
    pub file: String,
    /// Number of activations.
    pub rows: u64,
    /// Size.
    pub bytes: u64,
    /// Earliest expiry.
    pub first_ns: Nanos,
    /// Latest expiry.
    pub last_ns: Nanos,
}

/// Plan and end of a recording: `manifest.json`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Manifest {
    /// Version of the recording's layout.
    pub schema: u32,
    /// Version of the program that wrote it.
    pub version: String,
    /// End of the recording.
    #[serde(flatten)]
    pub state: State,
    /// Command line of the program.
    pub command: Vec<String>,
    /// Source of the stages.
    pub backend: Backend,
    /// Plan of the probe.
    pub plan: ProbePlan,
    /// Clock of all times.
    pub clock: Clock,
    /// Longest time, as of the last writing of this manifest, from a measurement to its
    /// writing: the maximum loss by a kill. Absent if unknown (a script, or an earlier
    /// version).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_within_ns: Option<Nanos>,
    /// Every line, by its ID.
    pub lines: Vec<Line>,
    /// Counts of every line, by its ID.
    pub counts: Vec<LineCount>,
    /// Load.
    pub load: Option<LoadRun>,
    /// Application that the recording was made for, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<AskedApplication>,
    /// Machine.
    pub host: Host,
    /// Losses.
    pub losses: Losses,
    /// Warnings.
    pub caveats: Vec<Caveat>,
    /// Overhead of the measurement.
    pub cost: OwnCost,
    /// Closed segments.
    pub segments: Vec<SegmentEntry>,
}

impl Manifest {
    /// Creates the manifest of a recording that starts, without data about the machine
    /// and without counts.
    #[must_use]
    pub fn new(backend: Backend, plan: ProbePlan, clock: Clock, lines: Vec<Line>) -> Self {
        Self {
            schema: SCHEMA_VERSION,
            version: env!("CARGO_PKG_VERSION").into(),
            state: State::Running,
            command: Vec::new(),
            backend,
            plan,
            clock,
            written_within_ns: None,
            counts: vec![LineCount::default(); lines.len()],
            lines,
            load: None,
            application: None,
            host: Host::default(),
            losses: Losses::default(),
            caveats: Vec::new(),
            cost: OwnCost::default(),
            segments: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Service;

    #[test]
    fn plan_has_the_rate_of_each_service() {
        let even = ProbePlan::default();
        let rated = ProbePlan {
            every: Every::about(Service::Fifo(90)),
            ..ProbePlan::default()
        };

        assert_eq!(even.periods(), "1ms");
        assert_eq!(even.pace(), "1ms");
        assert_eq!(rated.periods(), "1ms, softirq and other 2ms, fifo:50 4ms");
        assert_eq!(rated.pace(), "1ms to 4ms");
    }

    #[test]
    fn plan_of_an_earlier_version_measures_every_service_every_period() {
        let text = serde_json::to_string(&ProbePlan::default()).unwrap();

        assert!(!text.contains("every"), "{text}");
        assert_eq!(
            serde_json::from_str::<ProbePlan>(&text).unwrap(),
            ProbePlan::default()
        );
    }
}
