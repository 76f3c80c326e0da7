//! What can be required.

use std::path::PathBuf;

use laggard_model::{Nanos, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::place::Place;
use crate::load::Load;
use crate::qos::Application;

/// What is required, as a file has it.
#[derive(Clone, Debug)]
pub struct Requirements {
    /// The file.
    pub file: PathBuf,
    /// How sure each verdict is to be, 0.5 to 1.
    pub confidence: f64,
    /// What it means that a requirement cannot be decided.
    pub when_unclear: WhenUnclear,
    /// What is required, in the order of the file.
    pub rows: Vec<RequirementRow>,
}

/// What it means that a requirement cannot be decided.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenUnclear {
    /// The check does not pass.
    #[default]
    Fail,
    /// It passes with a warning.
    Warn,
    /// It does not pass, and whoever can is to record on.
    Extend,
}

/// One requirement and of what.
#[derive(Clone, Debug)]
pub struct RequirementRow {
    /// Where it is in the file.
    pub place: Place,
    /// What it is called, if the file says so.
    pub name: Option<String>,
    /// Of this service; none: of each that was measured.
    pub service: Option<Service>,
    /// Under this load; none: under each that was recorded.
    pub load: Option<String>,
    /// What.
    pub requirement: Requirement,
}

impl RequirementRow {
    /// Whether it is of a load that did not run for all of its recordings: what they
    /// saw may be of the machine without it. Of no load in particular, what is too much
    /// in a mixture is too much in a part of it.
    pub(super) fn is_of_less_than(&self, load: &Load) -> bool {
        self.load.is_some() && load.has_ended_early()
    }
}

/// Longest stall that a share covers if the file does not give `longest`.
pub(super) const DEFAULT_LONGEST: Nanos = Nanos::from_secs(1);

/// Returns the longest stall that a share covers: `longest`, or by default 1 s or
/// twice the latency limit, whichever is longer.
pub(super) fn longest_stall(at_most: Nanos, longest: Option<Nanos>) -> Nanos {
    longest.unwrap_or_else(|| DEFAULT_LONGEST.max(at_most + at_most))
}

/// What is required.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Requirement {
    /// At most this share of activations is later.
    Share {
        /// Later than this.
        at_most_ns: Nanos,
        /// The share, 0 to 1.
        share: f64,
        /// Longest stall that the answer must cover; absent if the file does not
        /// give it, so that the default is used.
        longest_ns: Option<Nanos>,
    },
    /// An application misses no more often than this.
    Mttf {
        /// The application.
        application: Application,
        /// The mean time to failure, at least.
        mttf_ns: Nanos,
    },
    /// Runs of later activations come no more often than this, on a CPU.
    Level {
        /// Later than this.
        level_ns: Nanos,
        /// Once in this time, on average.
        per_ns: Nanos,
    },
    /// Late activations come no more than so many times as often as in the
    /// baseline.
    NotWorseThan {
        /// So many times.
        ratio: f64,
    },
    /// No softirq runs for longer.
    LongestSoftirq {
        /// For this long at most.
        at_most_ns: Nanos,
        /// Those twice as long come less often than once in this time, on a CPU.
        per_ns: Nanos,
    },
    /// No interrupt's handler runs for longer.
    LongestIrq {
        /// For this long at most.
        at_most_ns: Nanos,
        /// Those twice as long come less often than once in this time, on a CPU.
        per_ns: Nanos,
    },
}
