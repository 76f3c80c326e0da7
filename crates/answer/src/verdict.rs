//! Verdict on a requirement or a criterion.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Verdict of `check` on a requirement, and of `bench rtos` on a criterion.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum TestVerdict {
    /// The whole interval is within the limit, or all samples meet the criterion.
    Pass,
    /// The samples decide neither.
    Unknown,
    /// The whole interval is beyond the limit, or a sample violates the criterion and the system
    /// is the cause.
    Fail,
}
