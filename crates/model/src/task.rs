//! Modelled tasks: what a rehearsal counted of one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cpu, Nanos, Service};

/// A modelled periodic task: every period a job is due, each computes, and one
/// that ends later than the deadline after it was due is late.
///
/// An application with n buffers of length t has the period t and the deadline
/// (n - 1) t (OSDI'99 5.1): a late job is a buffer that was not filled in time.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ModelledTask {
    /// Its name.
    pub name: String,
    /// What runs it.
    pub service: Service,
    /// The CPU that runs it.
    pub cpu: Cpu,
    /// The time from one job to the next.
    pub period_ns: Nanos,
    /// The work of one job, as the processor does it undisturbed.
    pub compute_ns: Nanos,
    /// How long after it was due a job may end.
    pub deadline_ns: Nanos,
}

/// What was counted of a modelled task that ran.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TaskCount {
    /// The task.
    #[serde(flatten)]
    pub task: ModelledTask,
    /// When its first job was due, `CLOCK_MONOTONIC`.
    pub first_ns: Nanos,
    /// From then until the last job was due, and one period.
    pub elapsed_ns: Nanos,
    /// Jobs that were due.
    pub jobs: u64,
    /// Of these, those that were left out, because the task was so far behind
    /// that the rest of the machine would have stood still. They are late.
    pub skipped: u64,
    /// Jobs that ended after their deadline: late buffers.
    pub late: u64,
    /// Runs of consecutive late jobs: underruns.
    pub underruns: u64,
    /// The longest such run, in jobs.
    pub longest_run: u64,
    /// From the instant a job was due to its end: the median of those served.
    pub median_response_ns: Nanos,
    /// The same of the one in a hundred that took longest.
    pub p99_response_ns: Nanos,
    /// The largest seen.
    pub largest_response_ns: Nanos,
    /// From a job's first instruction to its end: the shortest seen.
    pub least_work_ns: Nanos,
    /// The same, the median.
    pub median_work_ns: Nanos,
    /// CPU time that a job took on average, by the thread's own clock, with
    /// its waking and sleeping; absent inside the kernel, where there is no
    /// such clock.
    pub cpu_per_job_ns: Option<Nanos>,
    /// Page faults while it ran, where it is a thread.
    pub page_faults: u64,
}
