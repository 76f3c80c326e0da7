//! Usage patterns: how measured time relates to a user's hours.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a person uses a load, and how much faster the load drives the machine
/// (OSDI'99 3.1, 4.3).
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct UsagePattern {
    /// How many hours of a person's use one measured hour stands for. An
    /// assumption, not a measurement.
    pub compression: f64,
    /// Hours of use in a day, 0 to 24.
    pub hours_per_day: f64,
    /// Days of use in a week, 0 to 7.
    pub days_per_week: f64,
}
