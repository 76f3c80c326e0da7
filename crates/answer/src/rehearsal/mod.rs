//! Predicted against counted misses, as `laggard rehearse` shows them
//! (OSDI'99 6.1).

mod build;
mod remark;

use laggard_model::{LoadLabel, Nanos, Route, Service, TaskCount};
use schemars::JsonSchema;
use serde::Serialize;

use crate::note::Note;
use crate::sched::TaskVerdict;

pub use build::{Rehearsed, compare, mttf};
pub use remark::Remark;

/// The version of the JSON's layout.
pub const REHEARSAL_SCHEMA: u32 = 3;

/// What `laggard rehearse` says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RehearsalReport {
    /// The version of this layout.
    pub schema: u32,
    /// The file of the tasks.
    pub file: String,
    /// The load, or `no load`.
    pub load: LoadLabel,
    /// The recordings that the predictions are from.
    pub predicted_from: Vec<String>,
    /// How long they observed, all together.
    pub observed_ns: Nanos,
    /// The recording made meanwhile.
    pub recorded_in: String,
    /// The tasks.
    pub tasks: Vec<TaskRehearsal>,
    /// Latency of the services before and meanwhile.
    pub others: Vec<Effect>,
    /// What is missing from the recordings, or spoils the answer.
    #[serde(serialize_with = "crate::note::as_text")]
    #[schemars(with = "Vec<String>")]
    pub notes: Vec<Note>,
}

/// One task: counted, and predicted.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TaskRehearsal {
    /// What was counted.
    pub count: TaskCount,
    /// Counted failures: underruns, a run of more than 100 late jobs once per
    /// 100.
    pub failures: f64,
    /// The mean time between them, ns; absent when there was none.
    pub mttf_ns: Option<f64>,
    /// The service whose recorded latency the prediction is from.
    pub by: Service,
    /// How it was reached.
    pub route: Route,
    /// Failures, predicted for the time that the task ran.
    pub predicted_failures: Predicted,
    /// Late jobs, predicted for the same time.
    pub predicted_late: Predicted,
    /// Whether the counted failures lie in the interval.
    pub verdict: Inside,
    /// Whether the late jobs do.
    pub late_verdict: Inside,
    /// Counted over predicted failures; absent when either is zero.
    pub factor: Option<f64>,
    /// Failures in the same time by the papers' own rule.
    pub paper_failures: f64,
    /// Counted failures over those; absent when either is zero.
    pub paper_factor: Option<f64>,
    /// Worst responses by response-time analysis of the same recording.
    pub analysis: TaskVerdict,
    /// Reasons why the prediction is coarse, or is not one of the counted quantity.
    pub remarks: Vec<Remark>,
}

/// A count that was predicted, with the interval in which it was to lie.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Predicted {
    /// Its mean.
    pub mean: f64,
    /// Of 40 such counts one is expected to be less.
    pub low: f64,
    /// Of 40 such counts one is expected to be more.
    pub high: f64,
}

/// Where a count lies.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Inside {
    /// In the predicted interval.
    Inside,
    /// Fewer than predicted.
    Fewer,
    /// More than predicted.
    More,
}

impl TaskRehearsal {
    /// Whether its late jobs came as predicted, and the runs of them.
    pub fn is_as_predicted(&self) -> bool {
        Inside::all([self.verdict, self.late_verdict])
    }
}

impl Inside {
    /// Whether all of several counts lie in their intervals.
    pub fn all(counts: impl IntoIterator<Item = Self>) -> bool {
        counts.into_iter().all(|one| one == Self::Inside)
    }

    /// The word for it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Fewer => "FEWER",
            Self::More => "MORE",
        }
    }
}

/// The tasks' effect on one service.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Effect {
    /// The service.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
    /// Without the tasks.
    pub before: Summary,
    /// With them.
    pub meanwhile: Summary,
}

/// A service's latency in short.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Summary {
    /// Activations.
    pub samples: u64,
    /// Median latency of those that were not still waiting at the end.
    pub median_ns: Nanos,
    /// 99 % are below; absent where the samples do not tell.
    pub p99_ns: Option<Nanos>,
    /// The largest seen; it grows with the samples.
    pub largest_ns: Nanos,
    /// Whether the true largest is at least that: one was still waiting when
    /// measuring ended.
    pub largest_is_at_least: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_is_unmet_when_either_count_lies_outside() {
        use Inside::{Fewer, Inside as In, More};

        assert!(Inside::all([In, In]));
        for unmet in [[In, More], [More, In], [In, Fewer], [Fewer, More]] {
            assert!(!Inside::all(unmet), "for {unmet:?}");
        }
    }
}
