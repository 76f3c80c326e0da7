//! Reasons why recordings that were read do not give an answer.

#![allow(clippy::disallowed_macros, reason = "an error has a text")]

use laggard_analyze::InputError;
use laggard_model::{CpuList, Service};
use laggard_record::OpenError;

/// Reason why recordings that were read do not give an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// One cannot be read again, for its late activations.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A number of the question is outside its range.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A task runs as a service that was not measured.
    #[error(
        "task `{task}` runs as `{service}`, which `{recordings}` did not measure; \
         record with `--services {service}`, or give it a service that `laggard show` lists"
    )]
    NotMeasured {
        task: String,
        /// Service that runs it.
        service: Service,
        /// Recordings of the question, separated by backticks.
        recordings: String,
    },
    /// The service of a task was not measured on the CPUs of the task.
    #[error(transparent)]
    OtherCpus(Box<OtherCpus>),
}

/// The service of a task was not measured on the CPUs of the task.
#[derive(Debug, thiserror::Error)]
#[error(
    "task `{task}` runs on CPU {allowed}, and `{recordings}` measured `{service}` on CPU {measured} only; \
     record with `--cpus {allowed}`, or change the CPU of the task"
)]
pub struct OtherCpus {
    pub task: String,
    /// Service that was measured.
    pub service: Service,
    /// CPUs that the task may run on.
    pub allowed: CpuList,
    /// CPUs that the service was measured on.
    pub measured: CpuList,
    /// Recordings of the question, separated by backticks.
    pub recordings: String,
}
