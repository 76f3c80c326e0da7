//! Errors of `laggard qos`.

#![allow(clippy::disallowed_macros, reason = "an error has a text")]

use laggard_analyze::InputError;
use laggard_model::text::count;
use laggard_model::{Meant, Nanos, ParseNanosError, Service};

/// The text is not a goal.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is not a goal; write \"1 per 8h\" (a number of bursts, 1 or more, `per`, and a time; not more than 1000 per second) or \"9 of 10 sessions of 2h\""
)]
pub struct NotAGoal(pub(super) String);

/// Limit of the number of buffers. With more buffers of the maximum length (a day), the total does
/// not fit into a time.
pub(super) const MAX_BUFFERS: u32 = 65_536;
/// Limit of the length of a buffer.
pub(super) const MAX_BUFFER: Nanos = Nanos::from_secs(86_400);
/// Limit of the jobs in one replay. An answer takes 48 replays for each point of the curve
/// (three lists of blackouts, 16 phases).
pub(super) const MAX_JOBS: u64 = 1_000_000;

/// Reason why an application cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplicationError {
    /// The catalogue cannot be read.
    #[error("cannot read the catalogue")]
    Catalogue(#[source] toml::de::Error),
    /// The name is neither in the catalogue nor a file.
    #[error("`{0}` is not in the catalogue; see `laggard qos --list`, or give a TOML file{1}")]
    Unknown(String, Meant),
    /// The file cannot be read.
    #[error("cannot read the application `{file}`")]
    Read {
        /// The file, as typed.
        file: String,
        /// Reason.
        source: std::io::Error,
    },
    /// The file has something else.
    #[error(
        "`{file}` is not an application; write name, buffers, buffer and compute as `laggard qos --help` shows"
    )]
    NoApplication {
        /// The file, as typed.
        file: String,
        source: toml::de::Error,
    },
    #[error("application `{name}`")]
    Time {
        name: String,
        source: ParseNanosError,
    },
    /// One buffer tolerates no latency.
    #[error("`{name}` needs 2 or more buffers to tolerate any latency, not {buffers}")]
    FewBuffers {
        name: String,
        /// Number of buffers that was requested.
        buffers: u32,
    },
    /// There are too many buffers.
    #[error("`{name}` has {buffers} buffers; the limit of `--buffers` is {MAX_BUFFERS}")]
    ManyBuffers {
        name: String,
        /// Number of buffers that was requested.
        buffers: u32,
    },
    #[error("`{name}` has buffers of {buffer}; the limit of `--buffer` is {MAX_BUFFER}")]
    LongBuffers { name: String, buffer: Nanos },
    /// The work takes longer than the buffer.
    #[error(
        "`{name}` computes for {compute} in a buffer of {buffer}; the work must be shorter than the buffer"
    )]
    TooMuchWork {
        name: String,
        /// Work per buffer.
        compute: Nanos,
        buffer: Nanos,
    },
}

/// Reason for a missing answer.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QosError {
    /// A figure of the application is out of its range.
    #[error(transparent)]
    Input(#[from] InputError),
    /// No recorded service could run the application.
    #[error("no recorded thread could run it")]
    NoThread,
    /// The buffers are so short that a replay would take too long.
    #[error(
        "buffers of {buffer} are too short for a replay: `{service}` was stopped for {} of them (limit {}); the shortest for these recordings is `--buffer {least}`",
        count(*jobs),
        count(MAX_JOBS)
    )]
    TooShort {
        buffer: Nanos,
        /// Service that was stopped.
        service: Service,
        jobs: u64,
        /// Shortest buffer that can be replayed, about.
        least: Nanos,
    },
}
