//! Errors in a file of requirements, with the likely intention.

#![allow(clippy::disallowed_macros, reason = "an error has a text")]

use std::path::PathBuf;

use laggard_model::{Meant, ParseNanosError, ParseServiceError, Service, nearest};

use super::place::Place;
use crate::qos::ApplicationError;

/// Keys of a task set of `laggard sched`.
const TASK_SET_KEYS: [&str; 5] = ["overhead", "permitted", "service", "cpu", "task"];

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequirementError {
    /// The file cannot be read.
    #[error("cannot read `{}`", file.display())]
    Read {
        file: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    #[error("{}:{place}", file.display())]
    At {
        file: PathBuf,
        place: Place,
        /// The error, and the likely intention.
        source: Box<Wrong>,
    },
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// The text is not TOML, or a value has another type.
    #[error("{0}")]
    Toml(String),
    /// A `[[require]]` has an unknown key.
    #[error("unknown key `{0}` in [[require]]{1}")]
    Key(String, Meant),
    /// The top level has an unknown key that is similar to a known one.
    #[error("unknown key `{0}` at top level{1}")]
    TopLevelKey(String, Meant),
    /// The top level has an unknown key.
    #[error(
        "unknown key `{0}` at top level; requirements start with [[require]]{hint}",
        hint = if TASK_SET_KEYS.contains(&&**.0) {
            " (is this a task set? use `laggard sched --tasks`)"
        } else {
            ""
        }
    )]
    OutsideRequire(String),
    /// The file lacks a requirement.
    #[error("the file has no requirement; write at least one [[require]]")]
    Empty,
    /// A `[[require]]` lacks a limit.
    #[error(
        "[[require]] has no limit; write at_most and share, app and mttf, level and per, \
         not_worse_than, longest_softirq or longest_irq"
    )]
    Nothing,
    /// A `[[require]]` has two limits.
    #[error("`{other}` and `{first}` are two requirements; write a [[require]] for each")]
    Two {
        /// The key that comes first in the list of keys.
        first: &'static str,
        other: &'static str,
    },
    /// A key needs another key.
    #[error("`{key}` needs `{lacks}`, such as {example}")]
    Lacks {
        key: &'static str,
        /// The missing key.
        lacks: &'static str,
        /// Example of the missing key.
        example: &'static str,
    },
    /// A text is not a time.
    #[error(transparent)]
    Time(#[from] ParseNanosError),
    /// A time is 0.
    #[error("`{0}` is not a limit; write a time above 0")]
    NoTime(String),
    /// A text is not a duration.
    #[error("`{0}` is not a duration{1}")]
    Length(String, Meant),
    /// A text is not a service.
    #[error(transparent)]
    Service(ParseServiceError),
    /// A limit for handlers has a service.
    #[error("`{0}` applies to a CPU and not to a service; remove `service`")]
    HandlersHaveNoService(&'static str),
    /// The application does not exist.
    #[error(transparent)]
    Application(ApplicationError),
    /// A share is out of range.
    #[error("`share` is {0}; write a number above 0 and below 1, such as 1e-5 for one in 100,000")]
    Share(f64),
    /// The longest stall is not longer than the latency limit.
    #[error(
        "`longest` is {longest}, but no wakeup is later than `at_most` ({at_most}) in a stall that \
         short; write a longer time"
    )]
    Longest {
        longest: String,
        /// The latency limit.
        at_most: String,
    },
    /// A confidence is out of range.
    #[error("`confidence` is {0}; write a number above 0.5 and at most 0.9999, such as 0.95")]
    Confidence(f64),
    /// A ratio is out of range.
    #[error(
        "`not_worse_than` is {0}; write a number above 1 and below 1000, such as 1.25 for 25 % \
         more late wakeups"
    )]
    Ratio(f64),
    /// The value of `when_unclear` is unknown.
    #[error("`when_unclear` is `{0}`; use fail, warn or extend")]
    WhenUnclear(String),
    /// No recording has the service.
    #[error(
        "no recording measured {service}{load}; measured: {measured}",
        service = service.map_or_else(|| "a thread".into(), |name| format!("`{name}`")),
        load = load.as_ref().map_or_else(String::new, |name| format!(" under the load `{name}`")),
    )]
    NotMeasured {
        /// The service; `None` for any thread.
        service: Option<Service>,
        load: Option<String>,
        measured: String,
    },
    /// No recording has the load.
    #[error("no recording has the load `{load}`; recorded: {recorded}")]
    NotLoaded {
        load: String,
        /// The loads of the recordings.
        recorded: String,
    },
    #[error("`not_worse_than` needs a baseline; give its recordings with --baseline")]
    NoBaseline,
    /// A single recording lacks a baseline.
    #[error(
        "`not_worse_than` compares recordings that were made in turn; record both sides and use \
         `laggard check --baseline`"
    )]
    TakesBaseline,
    /// The baseline does not have the load.
    #[error(
        "no recording of the baseline has the load `{load}`; add one, or set `load` in the \
         requirement"
    )]
    BaselineNotLoaded { load: String },
}

impl Wrong {
    /// Converts the message of the reader of TOML.
    pub(super) fn from_toml(message: &str) -> Self {
        let mut words = message.split('`').skip(1).step_by(2);
        let is_unknown = message.starts_with("unknown field");
        let Some(name) = words.next().filter(|_| is_unknown) else {
            return Self::Toml(message.lines().next().unwrap_or_default().into());
        };
        let words_known: Vec<&str> = words.collect();
        let meant = nearest(name, &words_known);
        match (words_known.contains(&"require"), meant == Meant::default()) {
            (false, _) => Self::Key(name.into(), meant),
            (true, false) => Self::TopLevelKey(name.into(), meant),
            (true, true) => Self::OutsideRequire(name.into()),
        }
    }
}
