//! Source of the usage pattern of a forecast.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The user gave it.
    Given,
    /// The recorded load defines it.
    Load,
    /// Neither does: [`laggard_model::UsagePattern::ALWAYS`].
    Assumed,
}
