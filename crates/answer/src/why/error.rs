//! Errors of `laggard why`.

#![allow(clippy::disallowed_macros, reason = "an error has a text")]

use laggard_model::Service;
use laggard_record::{OpenError, Shortfall};

/// Reason why the causes of late wakeups are not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EpisodesError {
    /// The directory cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The recording was made without episodes.
    #[error("`{path}` was recorded without episodes; {remedy}")]
    NotRecorded {
        path: String,
        /// Way to record them.
        remedy: &'static str,
        /// Parts that could not be read.
        shortfalls: Vec<Shortfall>,
    },
    /// Its rows are not wakeups of `record`.
    #[error(
        "`{path}` has {rows}: the time and the length of each, but not the cause; \
         `laggard record` records causes"
    )]
    OfRows {
        path: String,
        rows: String,
        /// Parts that could not be read.
        shortfalls: Vec<Shortfall>,
    },
    /// It was imported from a trace of another system.
    #[error(
        "`{path}` has {rows}: each service is a driver (`laggard show {path}`), and \
         `laggard import` of the trace lists the routines"
    )]
    OfTrace {
        path: String,
        rows: String,
        /// Parts that could not be read.
        shortfalls: Vec<Shortfall>,
    },
    /// The file with the notes and names of the episodes is damaged.
    #[error("cannot read the causes of late wakeups in `{path}`: {damage}; restore it from a copy")]
    Damaged {
        path: String,
        damage: Shortfall,
        /// All parts that could not be read.
        shortfalls: Vec<Shortfall>,
    },
    /// The service was not measured.
    #[error(
        "`{path}` has no service `{service}`; `laggard show {path}` lists the measured services"
    )]
    NotMeasured {
        path: String,
        /// Requested service.
        service: Service,
    },
    /// The timer interrupt does not have late wakeups.
    #[error(
        "the timer interrupt (`irq`) is a stage of every wakeup, and its delay is one of their causes; choose a thread, `softirq` or `worker`"
    )]
    IsStage,
    /// The recording has episodes, but not this one.
    #[error(
        "`{path}` has no episode {number}, of {kept}; `laggard why --all {path}` lists the largest"
    )]
    NoSuch {
        path: String,
        /// Requested number.
        number: u64,
        kept: usize,
    },
}

/// Reason why the report does not exist.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BugError {
    /// No wakeup was late.
    #[error("`{path}` has no late wakeup with trace data, and so no cause to report")]
    NothingLate { path: String },
    /// The number is 0, or there are fewer causes.
    #[error(
        "`{path}` has no cause {number}: --bug takes 1 to {known}, as listed by \
         `laggard why --top {known}`"
    )]
    NoSuch {
        path: String,
        /// Requested number.
        number: usize,
        /// Number of causes.
        known: usize,
    },
}
