//! The manifest: what a recording is of, and how it ended.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    AskedApplication, Caveat, Contexts, Every, Host, Line, LossReason, Losses, Nanos, OwnCost,
    RowsOf, Stage, Throughput, TimerApi, UsagePattern,
};

/// The version of the recording's layout that this program writes. Readers
/// accept every version up to their own. 2: closed segments are in a folder of
/// their own.
pub const SCHEMA_VERSION: u32 = 2;

/// How a recording ended.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// Not yet, or the program was killed.
    Running,
    /// It ended as asked.
    Complete,
    /// Early, at the user's request (Ctrl-C or a termination signal).
    Interrupted,
    /// By an error; what was written before is good.
    Failed {
        /// What went wrong.
        error: String,
    },
}

/// What gave the stages.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// eBPF programs: every stage.
    Bpf,
    /// The kernel's own events on Windows (ETW): from when on a thread could run, and when
    /// it was switched in.
    Etw,
    /// No BPF: expiry and user stage only.
    User,
    /// The kernel's timerlat tracer alone: its two stages.
    Tracer,
    /// The driver `wdmlat.sys` of Windows alone: when its DPC ran, and its thread.
    Driver,
    /// A script: no real measurement.
    Fake,
    /// A trace that another program recorded.
    Imported,
}

/// Which samples are kept.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// Every activation.
    #[default]
    All,
    /// Histograms by the hour, the largest by the minute, and the tail.
    Tail,
}

/// What was asked of the probe.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Plan")]
pub struct ProbePlan {
    /// The mean time between a line's expiries, but for those of `every`. 0: they are
    /// not planned (see `rows`).
    pub period_ns: Nanos,
    /// Which services have only one in so many of these expiries; absent: none.
    #[serde(default, skip_serializing_if = "Every::is_all")]
    pub every: Every,
    /// Whether expiries are spread so that no hidden tick can hide.
    pub dither: bool,
    /// The seed of that spread; the same seed gives the same timelines.
    pub seed: u64,
    /// How long was asked for; `None`: until stopped.
    pub duration_ns: Option<Nanos>,
    /// Activations later than this are exceedances.
    pub threshold_ns: Nanos,
    /// Which samples are kept.
    pub keep: Keep,
    /// Whether CPUs were kept from idle states while measuring.
    #[serde(default)]
    pub held_awake: bool,
    /// Which stages on the way were to be stamped; absent: all that can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Vec<Stage>>,
    /// Busy processes that competed for the CPU, and who was asked beside them;
    /// absent: none of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Contexts>,
    /// Which timer of Windows threads waited for; absent: the system's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<TimerApi>,
    /// What each row is; absent: an expiry that was planned.
    #[serde(default, skip_serializing_if = "RowsOf::are_expiries")]
    pub rows: RowsOf,
}

impl ProbePlan {
    /// The shortest and the longest period that can be recorded with.
    pub const PERIODS: (Nanos, Nanos) = (Nanos::from_us(10), Nanos::from_secs(10));

    /// How often services are measured, in words: `1ms`, or `1ms, softirq and
    /// other 2ms, fifo:50 4ms`.
    #[must_use]
    pub fn periods(&self) -> String {
        let mut seldom: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (service, every) in self.every.iter() {
            seldom.entry(every).or_default().push(service.to_string());
        }
        let of = |(every, services): (u32, Vec<String>)| {
            format!(
                ", {} {}",
                services.join(" and "),
                self.period_ns * u64::from(every)
            )
        };
        let seldom: String = seldom.into_iter().map(of).collect();
        format!("{}{seldom}", self.period_ns)
    }

    /// What the rows are and how often they come, in words: `period 1ms (dithered)`.
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

    /// The same in short: `1ms`, or `1ms to 4ms`.
    #[must_use]
    pub fn pace(&self) -> String {
        match self.every.iter().map(|(_, every)| every).max() {
            None | Some(1) => self.period_ns.to_string(),
            Some(most) => format!("{} to {}", self.period_ns, self.period_ns * u64::from(most)),
        }
    }
}

impl Default for ProbePlan {
    /// Every service each millisecond, with the first of all seeds.
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

/// The clock of all times in a recording.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Clock {
    /// Its name, `CLOCK_MONOTONIC`.
    pub name: String,
    /// When measuring began, by this clock.
    pub start_ns: Nanos,
    /// When it ended; `None` while it runs or after a kill.
    pub end_ns: Option<Nanos>,
    /// The same start by the wall clock, RFC 3339 with time zone.
    pub start_wall: String,
}

impl Clock {
    /// `CLOCK_MONOTONIC`, of a recording that began at `start_ns`.
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

/// What else the machine did meanwhile.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LoadRun {
    /// A built-in load's name, or the command's first word.
    pub name: String,
    /// The whole command, where one was given.
    pub command: Vec<String>,
    /// Who uses it how, where known.
    pub usage: Option<UsagePattern>,
    /// How it ended, where it ended before the recording.
    pub ended: Option<String>,
    /// When it was told to begin to work, `CLOCK_MONOTONIC`: launched and set
    /// up before measuring began, and begun after, as OSDI'99 2.2 does. Absent:
    /// it worked already when measuring began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_ns: Option<Nanos>,
    /// How much work it did, where it counted that.
    #[serde(default)]
    pub throughput: Option<Throughput>,
}

/// Activations of one line: those in the recording's closed segments, and what
/// became of the rest of its plan.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct LineCount {
    /// Expiries that the service came to.
    pub served: u64,
    /// Missed: their expiry passed while the service was still busy.
    pub missed: u64,
    /// How many of the missed were still waiting when measuring ended; see
    /// [`crate::Activation::censored`].
    #[serde(default)]
    pub censored: u64,
    /// Lost altogether, for whatever reason; by reason: [`Losses`].
    #[serde(default)]
    pub lost: u64,
    /// Expiries planned from the beginning to the end of measuring: served +
    /// missed + lost in a recording that ended. Absent where it is not known
    /// (an external source, a recording of an earlier version or one that did
    /// not end).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u64>,
}

impl LineCount {
    /// Counts one activation that is in the recording.
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

/// What became of a line's plan besides the activations that were handed over.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// Expiries planned from the beginning to the end of measuring; known when
    /// that has ended. Each is an activation, served or missed, or lost.
    pub planned: Option<u64>,
    /// Lost altogether, for whatever reason.
    pub lost: u64,
    /// By reason; those that cost a stage only are here too.
    pub losses: Losses,
}

impl Account {
    /// Counts an expiry that is lost altogether.
    pub fn lose(&mut self, reason: LossReason) {
        self.lost += 1;
        self.losses.add_whole(reason);
    }
}

/// One closed segment.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct SegmentEntry {
    /// Its name, from the recording's folder on.
    pub file: String,
    /// Activations in it.
    pub rows: u64,
    /// How large it is.
    pub bytes: u64,
    /// The earliest expiry in it.
    pub first_ns: Nanos,
    /// The latest expiry in it.
    pub last_ns: Nanos,
}

/// What a recording is of, and how it ended: `manifest.json`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Manifest {
    /// Version of the recording's layout.
    pub schema: u32,
    /// Version of the program that wrote it.
    pub version: String,
    /// How it ended.
    #[serde(flatten)]
    pub state: State,
    /// The program's command line.
    pub command: Vec<String>,
    /// What gave the stages.
    pub backend: Backend,
    /// What was asked.
    pub plan: ProbePlan,
    /// The clock of all times.
    pub clock: Clock,
    /// The longest time, as of the last writing of this manifest, from when
    /// something was measured to when it was written, and so no more to be lost by
    /// a kill. Absent: not known (a script, or an earlier version).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_within_ns: Option<Nanos>,
    /// Every line, by its id.
    pub lines: Vec<Line>,
    /// Counts of every line, by its id.
    pub counts: Vec<LineCount>,
    /// What else ran.
    pub load: Option<LoadRun>,
    /// The application that it was made for, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<AskedApplication>,
    /// The machine.
    pub host: Host,
    /// What was lost.
    pub losses: Losses,
    /// Reasons to doubt.
    pub caveats: Vec<Caveat>,
    /// What measuring cost.
    pub cost: OwnCost,
    /// The closed segments.
    pub segments: Vec<SegmentEntry>,
}

impl Manifest {
    /// Of a recording that begins: nothing is known of the machine, and nothing
    /// counted yet.
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
    fn a_plan_says_how_often_each_service_is_measured() {
        let even = ProbePlan::default();
        let asked = ProbePlan {
            every: Every::about(Service::Fifo(90)),
            ..ProbePlan::default()
        };

        assert_eq!(even.periods(), "1ms");
        assert_eq!(even.pace(), "1ms");
        assert_eq!(asked.periods(), "1ms, softirq and other 2ms, fifo:50 4ms");
        assert_eq!(asked.pace(), "1ms to 4ms");
    }

    #[test]
    fn a_plan_of_an_earlier_version_has_every_service_every_period() {
        let text = serde_json::to_string(&ProbePlan::default()).unwrap();

        assert!(!text.contains("every"), "{text}");
        assert_eq!(
            serde_json::from_str::<ProbePlan>(&text).unwrap(),
            ProbePlan::default()
        );
    }
}
