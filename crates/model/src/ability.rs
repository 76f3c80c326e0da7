//! Abilities that a full recording uses, and reasons why this machine lacks them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ability that a full recording uses.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Ability {
    /// Name, such as `flight recorder`.
    pub name: String,
    /// Whether a full recording needs it; others add trace data.
    pub is_needed: bool,
    /// Reason for its absence; absent if it is available.
    pub absence: Option<Absence>,
}

/// Reason why an ability is not available.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Absence {
    /// Reason, in the system's words if it refused.
    pub reason: String,
    /// Remedy, in words.
    pub remedy: String,
    /// Kind of the reason.
    pub lacks: Lacks,
}

impl Absence {
    /// Returns an absence with this reason, its remedy and its kind.
    pub fn new(reason: impl Into<String>, remedy: impl Into<String>, lacks: Lacks) -> Self {
        Self {
            reason: reason.into(),
            remedy: remedy.into(),
            lacks,
        }
    }
}

/// Kind of the reason why an ability is not available.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lacks {
    /// The user lacks rights that can be checked in advance.
    Rights,
    /// The kernel, or its configuration, lacks it.
    Kernel,
    /// The machine lacks it.
    Machine,
}
