//! Remarks on the prediction for a task.

use laggard_model::{ModelledTask, Nanos, Service, TaskCount};
use schemars::JsonSchema;
use serde::Serialize;

use crate::qos::Resolution;

/// Reason why a prediction is coarse, or is not a prediction of the counted quantity.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Remark {
    /// The service of the task was not recorded.
    OtherService {
        /// Service that the prediction rests on.
        by: Service,
        service: Service,
    },
    /// The recordings do not resolve the slack of the task well.
    Coarse {
        slack_ns: Nanos,
        /// Resolution of the recordings.
        resolution: Resolution,
    },
    /// The service was still waiting when the first recording ended.
    Waiting {
        by: Service,
        /// Time that it had waited by then.
        waited_ns: Nanos,
    },
    /// A `SCHED_OTHER` thread shares the CPU while it computes.
    SharesCpu,
    /// The work took longer than requested.
    LongWork {
        median_ns: Nanos,
        requested_ns: Nanos,
    },
    /// The task had page faults.
    PageFaults {
        /// Number of page faults.
        count: u64,
    },
    /// Tasks on the same CPU with the same or a higher priority.
    Beside { tasks: Vec<String> },
}

impl Remark {
    /// Compares the task that ran with the one that was predicted.
    pub(super) fn unlike(count: &TaskCount) -> Vec<Self> {
        let task = &count.task;
        let median_ns = count.median_work_ns;
        let is_long = median_ns.ns() > task.compute_ns.ns() / 10 * 11;
        [
            (task.service == Service::Other).then_some(Self::SharesCpu),
            is_long.then_some(Self::LongWork {
                median_ns,
                requested_ns: task.compute_ns,
            }),
            (count.page_faults > 0).then_some(Self::PageFaults {
                count: count.page_faults,
            }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Finds other tasks on the same CPU that can delay `task`. The prediction for `task`
    /// does not include them.
    pub(super) fn beside(task: &ModelledTask, counts: &[TaskCount]) -> Option<Self> {
        let tasks: Vec<String> = counts
            .iter()
            .map(|count| &count.task)
            .filter(|other| other.cpu == task.cpu && other.name != task.name)
            .filter(|other| other.service.urgency() >= task.service.urgency())
            .map(|other| other.name.clone())
            .collect();
        (!tasks.is_empty()).then_some(Self::Beside { tasks })
    }
}
