//! Schedulability of a task set, for `laggard sched`.

mod build;
mod doubt;
mod file;
mod limit;
mod rank;
mod rtapp;
mod runner;
mod tasks;
mod waiting;

use laggard_model::{Cpu, CpuList, LoadLabel, Nanos, Service};
use schemars::JsonSchema;
use serde::Serialize;

use crate::note::Note;

pub use build::{analyse, analysed};
pub use doubt::TaskDoubt;
pub use file::read_tasks;
pub use limit::{LargestPart, ResponseLimit, UnseenTime};
pub use rank::{StandIn, TaskRank, TaskRemark};
pub use rtapp::RtAppError;
pub use tasks::TasksError;

/// Version of the JSON's layout.
pub const SCHED_SCHEMA: u32 = 4;

/// Task of the set; highest priority first.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TaskAsked {
    pub name: String,
    /// Execution time of one job.
    pub compute_ns: Nanos,
    /// Time between the arrivals of two jobs.
    pub period_ns: Nanos,
    /// Deadline after the arrival: as given, or the period, or n - 1 periods with n
    /// buffers.
    pub deadline_ns: Nanos,
    /// Blocking time by tasks of lower priority.
    pub blocking_ns: Nanos,
    /// Measured service that runs it.
    pub service: Service,
    /// CPU of the task, if the file names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Number of buffers, if it has any.
    pub buffers: Option<u32>,
    /// Place among the priorities of its set.
    #[serde(skip)]
    pub rank: TaskRank,
}

/// Task set to analyse.
#[derive(Clone, Debug)]
pub struct SchedQuestion {
    /// The tasks, highest priority first.
    pub tasks: Vec<TaskAsked>,
    /// CPUs on which the tasks without a CPU may run. Empty: any.
    pub cpus: CpuList,
    /// Time that each job takes in addition, for its two context switches.
    pub overhead: Nanos,
    /// Permitted time between two misses.
    pub permitted: Nanos,
    /// Differences between the file and the analysed tasks.
    pub remarks: Vec<TaskRemark>,
}

/// Answer of `laggard sched`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SchedReport {
    /// Version of this layout.
    pub schema: u32,
    pub load: LoadLabel,
    /// Total length of the recording, ns.
    pub observed_ns: f64,
    /// The tasks with their verdicts, highest priority first.
    pub tasks: Vec<TaskVerdict>,
    /// Permitted time between two misses.
    pub permitted_ns: Nanos,
    /// Tests of the whole set.
    pub set: SetVerdict,
    /// Differences between the file and the analysed tasks.
    pub remarks: Vec<TaskRemark>,
    /// Doubts about the recording.
    pub notes: Vec<Note>,
}

/// Verdict on the deadline of a task.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The upper limit of the response meets it, and misses are at most as frequent as permitted.
    Meets,
    /// The lower limit of the response misses it.
    Misses,
    /// The recording does not show it; `doubts` has the reasons.
    Unknown,
}

/// Responses of one task and its verdict. Times in ns; an absent response is unbounded.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TaskVerdict {
    #[serde(flatten)]
    pub task: TaskAsked,
    /// Worst response on a system without latency.
    pub ideal_ns: Option<f64>,
    /// Worst response with the maximum interrupt latency as release jitter and the maximum
    /// of each later stage as blocking.
    pub jitter_ns: Option<f64>,
    /// Lower limit of the worst response with the measured stalls.
    pub least_ns: Option<f64>,
    /// Upper limit of the worst response with the measured stalls, and one that fits between
    /// two samples. Also absent if the recording lacks the times of the latencies.
    pub most_ns: Option<f64>,
    /// Worst response with stalls that are exceeded once per permitted time between two
    /// misses, upper limit.
    pub rated_ns: Option<f64>,
    /// Share of the windows, 0 to 1, that the recording is too short for. The longest measured
    /// stall replaces their limit.
    pub rated_as_seen: f64,
    /// Deadline minus the upper limit of the response; negative if it is later.
    pub slack_ns: Option<f64>,
    pub verdict: Verdict,
    /// Reasons for the verdict `unknown`.
    pub doubts: Vec<TaskDoubt>,
    /// Length of a wait of the service that had not ended when measuring ended. The stall
    /// is at least that long, so no response has a bound.
    pub waited_ns: Option<Nanos>,
    /// The largest part of its measured response, and the additional time that the
    /// recording cannot rule out.
    pub limit: ResponseLimit,
    /// Test with the pseudo worst case, for tasks with buffers.
    pub pseudo: Option<Pseudo>,
}

/// Rare latency that is amortised over the buffers (OSDI'99 5.2).
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Pseudo {
    /// The rare latency, ns.
    pub rare_ns: f64,
    /// Source of the rare latency.
    pub rare_from: RareFrom,
    /// Ordinary latency: p99, ns.
    pub ordinary_ns: f64,
    /// Rare latency amortised over n - 1 cycles, ns.
    pub pseudo_worst_case_ns: f64,
    /// Whether the task passes with that time added to each job.
    pub amortised_passes: bool,
    /// Whether the task passes if one job has the whole rare latency.
    pub exact_passes: bool,
}

/// Source of a rare latency.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RareFrom {
    /// Upper limit of a return level.
    Level {
        /// Mean time between exceedances of the level.
        per_ns: Nanos,
    },
    /// Measured maximum, because the recording supports no return level. The failure rate
    /// is unknown.
    LargestSeen {
        /// Time of the return level that is not known.
        per_ns: Nanos,
    },
    /// Lower limit: a stall had not ended when measuring ended, so no test passes.
    Waiting,
    /// Every latency was 0 ns, so no latency has a bound and no test passes.
    AllZero,
}

/// Tests of the whole set.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SetVerdict {
    /// Share of the processor that the tasks use.
    pub utilization: f64,
    /// Bound of Liu and Layland on that share.
    pub utilization_bound: f64,
    /// Product of Bini and Buttazzo; up to 2 is schedulable.
    pub hyperbolic_product: f64,
    /// Whether these bounds apply: deadlines equal periods, priorities are rate-monotonic,
    /// and tasks do not block each other.
    pub bounds_apply: bool,
    /// Whether earliest deadline first meets all deadlines without latency; absent if
    /// unknown.
    pub edf_ideal: Option<bool>,
    /// The same with the longest measured stall as blocking.
    pub edf: Option<bool>,
    /// Breakdown utilisation without latency.
    pub breakdown_ideal: f64,
    /// Breakdown utilisation with the measured stalls.
    pub breakdown: f64,
    /// Whether the recording has the times of all stalls. Otherwise `edf` is unknown and
    /// `breakdown` is an upper limit.
    pub all_kept: bool,
}
