//! Requirements.

use std::path::PathBuf;

use laggard_model::{Nanos, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::place::Place;
use crate::load::Load;
use crate::qos::Application;

/// Content of a file of requirements.
#[derive(Clone, Debug)]
pub struct Requirements {
    pub file: PathBuf,
    /// Confidence of each verdict, 0.5 to 1.
    pub confidence: f64,
    /// Effect of an unknown verdict.
    pub when_unclear: WhenUnclear,
    /// The requirements, in the order of the file.
    pub rows: Vec<RequirementRow>,
}

/// Effect of an unknown verdict.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenUnclear {
    /// The check does not pass.
    #[default]
    Fail,
    /// The check passes with a warning.
    Warn,
    /// The check does not pass, and the output states how to continue recording.
    Extend,
}

/// Requirement with its service and load.
#[derive(Clone, Debug)]
pub struct RequirementRow {
    pub place: Place,
    pub name: Option<String>,
    /// Service; `None` means every measured service.
    pub service: Option<Service>,
    /// Load; `None` means every recorded load.
    pub load: Option<String>,
    pub requirement: Requirement,
}

impl RequirementRow {
    /// Returns whether the requirement names a load that did not run during all of its
    /// recordings, so that they also show the machine without the load. A requirement
    /// without a load can still fail.
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

#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Requirement {
    /// Maximum share of late wakeups.
    Share {
        /// Latency limit.
        at_most_ns: Nanos,
        /// The share, 0 to 1.
        share: f64,
        /// Longest stall that the answer must cover; absent if the file does not
        /// give it, so that the default is used.
        longest_ns: Option<Nanos>,
    },
    /// Minimum mean time between xruns of an application.
    Mttf {
        application: Application,
        /// Minimum mean time to failure.
        mttf_ns: Nanos,
    },
    /// Minimum mean time between runs of late wakeups on a CPU.
    Level {
        /// Latency limit.
        level_ns: Nanos,
        per_ns: Nanos,
    },
    /// Maximum ratio of the rate of late wakeups to the rate in the baseline.
    NotWorseThan { ratio: f64 },
    /// Maximum run time of a softirq.
    LongestSoftirq {
        /// Maximum run time.
        at_most_ns: Nanos,
        /// Minimum mean time between handlers of twice this length, on a CPU.
        per_ns: Nanos,
    },
    /// Maximum run time of an interrupt handler.
    LongestIrq {
        /// Maximum run time.
        at_most_ns: Nanos,
        /// Minimum mean time between handlers of twice this length, on a CPU.
        per_ns: Nanos,
    },
}
