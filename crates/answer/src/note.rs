//! Warnings about the recordings that an answer rests on.

use laggard_model::Caveat;
use laggard_record::Shortfall;
use schemars::JsonSchema;
use serde::Serialize;

use crate::trust::Distrust;

/// Reason to doubt a recording.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", content = "detail", rename_all = "snake_case")]
pub enum Doubt {
    /// The figures cannot be trusted, for these reasons.
    Untrustworthy(Vec<Distrust>),
    /// The recording was made from a script and measured nothing.
    Scripted,
    Lost(u64),
    /// Missing or damaged part of the recording.
    Missing(Shortfall),
    /// Problem of the measurement.
    Measuring(Distrust),
    /// Warning from the time of the recording.
    Caveat(Caveat),
}

/// Doubt about one of the recordings of an answer.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Note {
    /// The recording; `None` if the answer has only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    pub doubt: Doubt,
}

impl Note {
    /// Returns whether the doubt makes the whole answer doubtful.
    pub const fn is_warning(&self) -> bool {
        matches!(self.doubt, Doubt::Untrustworthy(_) | Doubt::Scripted)
    }
}
