//! What is wrong in a file of requirements, and what was meant.

use laggard_model::{ParseNanosError, ParseServiceError};

use crate::qos::ApplicationError;
use laggard_model::{Meant, nearest};

/// What is wrong with a requirement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// It is not TOML, or a value is of another sort.
    #[error("{0}")]
    Toml(String),
    /// There is no such field.
    #[error("there is no `{0}`{1}")]
    Field(String, Meant),
    /// The file has no requirement.
    #[error("nothing is required; write at least one [[require]]")]
    Empty,
    /// A row requires nothing.
    #[error(
        "nothing is required; write at_most and share, app and mttf, level and per, \
         not_worse_than, longest_softirq or longest_irq"
    )]
    Nothing,
    /// A row requires two things.
    #[error("`{other}` and `{first}` are two requirements; give each a [[require]] of its own")]
    Two {
        /// The one.
        first: &'static str,
        /// The other.
        other: &'static str,
    },
    /// A field means nothing without another.
    #[error("`{of}` needs `{lacks}` beside it, as in {example}")]
    Lacks {
        /// The field.
        of: &'static str,
        /// The other.
        lacks: &'static str,
        /// How to write it.
        example: &'static str,
    },
    /// A time is none.
    #[error(transparent)]
    Time(#[from] ParseNanosError),
    /// A time is 0.
    #[error("everything is later than no time; write a time above 0")]
    NoTime,
    /// A length of time has no such name.
    #[error("`{0}` is no length of time{1}")]
    Length(String, Meant),
    /// There is no such service.
    #[error(transparent)]
    Service(ParseServiceError),
    /// Handlers are of a CPU, not of a service.
    #[error("the longest handlers are those of a CPU, whichever service; leave `service` out")]
    HandlersHaveNoService,
    /// There is no such application.
    #[error(transparent)]
    Application(ApplicationError),
    /// A share is none.
    #[error("a share is above 0 and below 1, and not {0}; write 1e-5 for one in 100,000")]
    Share(f64),
    /// The longest stall is not longer than the latency limit.
    #[error(
        "`longest` is {longest}, and no wakeup is later than `at_most` ({at_most}) in a stall that short; \
         write a longer time"
    )]
    Longest {
        /// The longest stall.
        longest: String,
        /// The latency limit.
        at_most: String,
    },
    /// A confidence is none.
    #[error("a confidence is above 0.5 and at most 0.9999, and not {0}; write 0.95")]
    Confidence(f64),
    /// A ratio is none.
    #[error("a ratio is above 1, and not {0}; write 1.25 for a quarter more often")]
    Ratio(f64),
    /// What an unclear result means is not known.
    #[error("`{0}` is not known; use fail, warn or extend")]
    WhenUnclear(String),
    /// No recording has the service.
    #[error("no recording measured `{service}`{load}; measured: {measured}")]
    NotMeasured {
        /// The service.
        service: String,
        /// Under which load, if that was asked.
        load: String,
        /// What was measured.
        measured: String,
    },
    /// No recording has the load.
    #[error("no recording is of the load `{load}`; recorded: {recorded}")]
    NotLoaded {
        /// The load.
        load: String,
        /// What was recorded.
        recorded: String,
    },
    /// There is nothing to compare with.
    #[error("`not_worse_than` needs recordings to compare with; give them by --baseline")]
    NoBaseline,
    /// A baseline is compared with, while one recording is made.
    #[error(
        "`not_worse_than` takes recordings made in turn with others; \
         use `laggard check --baseline` on those"
    )]
    TakesBaseline,
    /// The baseline lacks a load.
    #[error("no recording of the baseline is of `{load}`; give one, or name the load that it has")]
    BaselineNotLoaded {
        /// The load.
        load: String,
    },
}

impl Wrong {
    /// What the reader of TOML says.
    pub(super) fn toml(message: &str) -> Self {
        let mut words = message.split('`').skip(1).step_by(2);
        let unknown = message.starts_with("unknown field");
        match (unknown, words.next()) {
            (true, Some(name)) => {
                let known: Vec<&str> = words.collect();
                Self::Field(name.into(), nearest(name, &known))
            }
            _ => Self::Toml(message.lines().next().unwrap_or_default().into()),
        }
    }
}
