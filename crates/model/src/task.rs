//! Modelled tasks, and the counts of a rehearsal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cpu, Nanos, Service};

/// Modelled periodic task: a job is due in every period, each computes, and a job that
/// ends later than the deadline after it was due is late.
///
/// An application with n buffers of length t has the period t and the deadline (n - 1)
/// t (OSDI'99 5.1): a late job is a buffer that was not filled in time.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ModelledTask {
    /// Name of the task.
    pub name: String,
    /// Service that runs it.
    pub service: Service,
    /// CPU that runs it.
    pub cpu: Cpu,
    /// Time from one job to the next.
    pub period_ns: Nanos,
    /// Execution time of a job on an undisturbed processor.
    pub compute_ns: Nanos,
    /// Maximum time from the due time of a job to its end.
    pub deadline_ns: Nanos,
}

/// Counts of a modelled task that ran.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TaskCount {
    /// Task.
    #[serde(flatten)]
    pub task: ModelledTask,
    /// Due time of its first job, `CLOCK_MONOTONIC`.
    pub first_ns: Nanos,
    /// Time until the due time of the last job, plus one period.
    pub elapsed_ns: Nanos,
    /// Number of due jobs.
    pub jobs: u64,
    /// Number of skipped jobs, because the task was too far behind, and the rest of the machine
    /// would have stalled. They are late.
    pub skipped: u64,
    /// Number of jobs that ended after their deadline: late buffers.
    pub late: u64,
    /// Number of runs of consecutive late jobs: underruns.
    pub underruns: u64,
    /// Length of the longest run, in jobs.
    pub longest_run: u64,
    /// Median time from the due time of a job to its end, of the served jobs.
    pub median_response_ns: Nanos,
    /// p99 of the same time.
    pub p99_response_ns: Nanos,
    /// Maximum of the same time.
    pub largest_response_ns: Nanos,
    /// Minimum time from a job's first instruction to its end.
    pub least_work_ns: Nanos,
    /// Median of that time.
    pub median_work_ns: Nanos,
    /// Mean CPU time of a job, by the thread's clock, including wakeup and sleep;
    /// absent inside the kernel, which does not have such a clock.
    pub cpu_per_job_ns: Option<Nanos>,
    /// Page faults during the run, for a thread.
    pub page_faults: u64,
}
