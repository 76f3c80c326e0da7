//! Whether a task set can be scheduled, as `laggard sched` shows it.

mod build;
mod doubt;
mod file;
mod limit;
mod rank;
mod rtapp;
mod runner;
mod tasks;
mod waiting;

use std::fmt::{self, Display, Formatter};

use laggard_model::text::mean_time;
use laggard_model::{Cpu, LoadLabel, Nanos, Service};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::note::Note;

pub use build::{analyse, analysed};
pub use doubt::TaskDoubt;
pub use file::read_tasks;
pub use limit::{LargestPart, ResponseLimit, UnseenTime};
pub use rank::{StandIn, TaskRank, TaskRemark};
pub use rtapp::RtAppError;
pub use tasks::TasksError;

/// The version of the JSON's layout.
pub const SCHED_SCHEMA: u32 = 2;

/// A task as it was asked about; highest priority first.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TaskAsked {
    /// Its name.
    pub name: String,
    /// The work of one job.
    pub compute_ns: Nanos,
    /// Time between two jobs.
    pub period_ns: Nanos,
    /// Deadline after the arrival: as given, or the period, or n - 1 periods
    /// with n buffers.
    pub deadline_ns: Nanos,
    /// How long lower priorities can hold it up.
    pub blocking_ns: Nanos,
    /// The measured service that runs it.
    pub service: Service,
    /// Where a rehearsal runs it, if that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Buffers, where it has them.
    pub buffers: Option<u32>,
    /// Which tasks of its set run before it.
    #[serde(skip)]
    pub rank: TaskRank,
}

/// What is asked of a recording.
#[derive(Clone, Debug)]
pub struct SchedQuestion {
    /// The tasks, highest priority first.
    pub tasks: Vec<TaskAsked>,
    /// Added to the work of every job, for its two context switches.
    pub overhead: Nanos,
    /// One failure is permitted per so long.
    pub permitted: Nanos,
    /// What to know of how the file was read.
    pub remarks: Vec<TaskRemark>,
}

/// What `laggard sched` says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SchedReport {
    /// The version of this layout.
    pub schema: u32,
    /// The load of the recording.
    pub load: LoadLabel,
    /// How long was observed, ns.
    pub observed_ns: f64,
    /// The tasks with their verdicts, highest priority first.
    pub tasks: Vec<TaskVerdict>,
    /// One failure is permitted per so long.
    pub permitted_ns: Nanos,
    /// What holds of the set as a whole.
    pub set: SetVerdict,
    /// How the task set was read, where it says other than what is analysed.
    #[schemars(with = "Vec<String>")]
    pub remarks: Vec<TaskRemark>,
    /// What is missing from the recording, or spoils the answer.
    #[serde(serialize_with = "crate::note::as_text")]
    #[schemars(with = "Vec<String>")]
    pub notes: Vec<Note>,
}

/// Whether a deadline is met.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Also with blackouts that are never too short, and no more often late
    /// than permitted.
    Meets,
    /// Even with blackouts that are never too long.
    Misses,
    /// The recording does not tell; `doubts` says why.
    Unclear,
}

/// What is found of one task. Times in ns; an absent response has no bound.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TaskVerdict {
    /// The task.
    #[serde(flatten)]
    pub task: TaskAsked,
    /// Worst response on a system without latency.
    pub ideal_ns: Option<f64>,
    /// Worst response with the largest interrupt latency seen as release
    /// jitter and the largest of each later stage as blocking.
    pub jitter_ns: Option<f64>,
    /// Worst response with the blackouts seen, never too long.
    pub least_ns: Option<f64>,
    /// Worst response with the blackouts seen, never too short, and one that
    /// fits unseen between two activations. Absent also where the recording
    /// did not keep what decides.
    pub most_ns: Option<f64>,
    /// Worst response with the blackouts that are exceeded once per permitted
    /// time between failures, at the upper limit of that.
    pub rated_ns: Option<f64>,
    /// For this share of the windows, 0 to 1, the recording is too short to
    /// tell that, and the largest seen stands in.
    pub rated_as_seen: f64,
    /// Deadline less the worst response; negative when missed.
    pub slack_ns: Option<f64>,
    /// By the blackouts.
    pub verdict: Verdict,
    /// Why the recording does not tell, and what would; for `unclear`.
    #[schemars(with = "Vec<String>")]
    pub doubts: Vec<TaskDoubt>,
    /// How long the service had waited when measuring ended, where it was still
    /// waiting then: that stall is at least so long, and no response has a
    /// bound.
    pub waited_ns: Option<Nanos>,
    /// The largest part of its measured response, and the additional time that the
    /// recording cannot rule out.
    pub limit: ResponseLimit,
    /// The test with the pseudo worst case, for tasks with buffers.
    pub pseudo: Option<Pseudo>,
}

/// OSDI'99 5.2: a rare latency amortised over the buffers.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Pseudo {
    /// The rare latency, ns.
    pub rare_ns: f64,
    /// Where it comes from.
    #[schemars(with = "String")]
    pub rare_from: RareFrom,
    /// The ordinary latency: p99, ns.
    pub ordinary_ns: f64,
    /// The rare one amortised over n - 1 cycles, ns.
    pub pseudo_worst_case_ns: f64,
    /// Whether the task passes with it added to its work.
    pub amortised_passes: bool,
    /// Whether it passes when one job pays all of it.
    pub exact_passes: bool,
}

/// Where a rare latency comes from. Serialized in words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RareFrom {
    /// A forecast: exceeded once in this time, at the upper limit of that.
    Level(Nanos),
    /// What was seen, because nothing is forecast of this time.
    LargestSeen(Nanos),
    /// A stall that had not ended when measuring did.
    Waiting,
    /// Every latency was 0 ns, so that no latency is bounded.
    AllZero,
}

impl Display for RareFrom {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level(per) => write!(
                f,
                "upper limit of the level exceeded once per {}",
                mean_time(per.as_f64())
            ),
            Self::LargestSeen(per) => write!(
                f,
                "largest seen: the recording supports no forecast of {}, so the failure rate is not known",
                mean_time(per.as_f64())
            ),
            Self::Waiting => {
                f.write_str("at least: a stall had not ended when measuring did, so no test passes")
            }
            Self::AllZero => {
                f.write_str("every latency was 0 ns, so no bound is known and no test passes")
            }
        }
    }
}

impl Serialize for RareFrom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What holds of the whole set.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SetVerdict {
    /// The share of the processor that the tasks use.
    pub utilization: f64,
    /// Liu & Layland's bound on it.
    pub utilization_bound: f64,
    /// Bini & Buttazzo's product, 2 at most.
    pub hyperbolic_product: f64,
    /// Whether these bounds apply: deadlines are periods, priorities
    /// rate-monotonic, no blocking.
    pub bounds_apply: bool,
    /// Whether it meets all deadlines by earliest deadline first without
    /// latency; absent where that cannot be decided.
    pub edf_ideal: Option<bool>,
    /// The same with the longest blackout seen as blocking.
    pub edf: Option<bool>,
    /// The utilisation at which it breaks down without latency.
    pub breakdown_ideal: f64,
    /// The same with the blackouts seen.
    pub breakdown: f64,
    /// Whether all blackouts that were seen were also kept; else `edf` is not
    /// known and `breakdown` is at most that.
    pub all_kept: bool,
}
