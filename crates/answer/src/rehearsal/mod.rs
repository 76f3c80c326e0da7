//! Predicted and counted misses, for `laggard rehearse` (OSDI'99 6.1).

mod build;
mod remark;

use laggard_model::{LoadLabel, Nanos, Route, Service, TaskCount};
use schemars::JsonSchema;
use serde::Serialize;

use crate::note::Note;
use crate::sched::TaskVerdict;

pub use build::{Rehearsed, compare, mttf};
pub use remark::Remark;

/// Version of the JSON's layout.
pub const REHEARSAL_SCHEMA: u32 = 4;

/// Answer of `laggard rehearse`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RehearsalReport {
    /// Version of this layout.
    pub schema: u32,
    pub file: String,
    /// The load, or `no load`.
    pub load: LoadLabel,
    /// Recordings that the predictions rest on.
    pub predicted_from: Vec<String>,
    /// Total length of these recordings.
    pub observed_ns: Nanos,
    pub recorded_in: String,
    pub tasks: Vec<TaskRehearsal>,
    /// Latency of the services without and with the tasks.
    pub others: Vec<Effect>,
    /// Doubts about the recordings.
    pub notes: Vec<Note>,
}

/// Counts and predictions of one task.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TaskRehearsal {
    pub count: TaskCount,
    /// Counted failures: underruns. A run of more than 100 late jobs counts once per 100.
    pub failures: f64,
    /// Mean time between failures, ns; absent without failures.
    pub mttf_ns: Option<f64>,
    /// Service whose recorded latency the prediction rests on.
    pub by: Service,
    pub route: Route,
    /// Failures, predicted for the time that the task ran.
    pub predicted_failures: Predicted,
    /// Late jobs, predicted for the same time.
    pub predicted_late: Predicted,
    /// Whether the counted failures lie in the interval.
    pub verdict: Inside,
    /// Whether the late jobs lie in their interval.
    pub late_verdict: Inside,
    /// Counted over predicted failures; absent when either is zero.
    pub factor: Option<f64>,
    /// Failures in the same time according to the rule of the papers.
    pub paper_failures: f64,
    /// Counted failures over `paper_failures`; absent when either is zero.
    pub paper_factor: Option<f64>,
    /// Worst responses from the response-time analysis of the same recording.
    pub analysis: TaskVerdict,
    /// Reasons why the prediction is coarse, or is not one of the counted quantity.
    pub remarks: Vec<Remark>,
}

/// Predicted count with its prediction interval.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Predicted {
    pub mean: f64,
    /// Lower end of the 95 % interval: 1 of 40 counts is below.
    pub low: f64,
    /// Upper end of the 95 % interval: 1 of 40 counts is above.
    pub high: f64,
}

/// Place of a count relative to its interval.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Inside {
    /// Whether it lies in the predicted interval.
    Inside,
    /// Fewer than predicted.
    Fewer,
    /// More than predicted.
    More,
}

impl TaskRehearsal {
    /// Returns whether the underruns and the late jobs lie in their intervals.
    pub fn is_as_predicted(&self) -> bool {
        Inside::all([self.verdict, self.late_verdict])
    }
}

impl Inside {
    /// Returns whether all counts lie in their intervals.
    pub fn all(counts: impl IntoIterator<Item = Self>) -> bool {
        counts.into_iter().all(|count| count == Self::Inside)
    }
}

/// Effect of the tasks on one service.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Effect {
    pub service: Service,
    pub route: Route,
    /// Latency without the tasks.
    pub before: Summary,
    /// Latency with the tasks.
    pub meanwhile: Summary,
}

/// Summary of the latency of a service.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Summary {
    pub samples: u64,
    /// Median of the wakeups that did not wait at the end.
    pub median_ns: Nanos,
    /// 99th percentile; absent with too few samples.
    pub p99_ns: Option<Nanos>,
    /// Measured maximum. It grows with the number of samples.
    pub largest_ns: Nanos,
    /// Whether the true maximum is at least that, because a wakeup was still waiting when
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
