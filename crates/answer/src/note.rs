//! Warnings about the recordings that an answer rests on.

use std::fmt::{self, Display, Formatter};

use laggard_model::Caveat;
use schemars::JsonSchema;
use serde::Serialize;

use crate::trust::{Distrust, joined};

/// Reason to doubt a recording.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", content = "detail", rename_all = "snake_case")]
pub enum Doubt {
    /// The figures cannot be trusted, for these reasons.
    Untrustworthy(#[schemars(with = "Vec<String>")] Vec<Distrust>),
    /// The recording was made from a script and measured nothing.
    Scripted,
    /// Number of lost samples.
    Lost(u64),
    /// Warning from the time of the recording.
    Caveat(Caveat),
}

/// Doubt about one of the recordings of an answer.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Note {
    /// The recording; `None` if the answer has only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// The doubt.
    pub doubt: Doubt,
}

impl Note {
    /// Returns whether the doubt makes the whole answer doubtful.
    pub const fn is_warning(&self) -> bool {
        matches!(self.doubt, Doubt::Untrustworthy(_) | Doubt::Scripted)
    }
}

impl Display for Doubt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untrustworthy(reasons) => write!(f, "NOT TRUSTWORTHY: {}", joined(reasons)),
            Self::Scripted => f.write_str("from a script: NOT a measurement"),
            Self::Lost(1) => f.write_str("1 sample was lost; it may have been a late one"),
            Self::Lost(lost) => write!(f, "{lost} samples were lost; they may have been late ones"),
            Self::Caveat(caveat) => write!(f, "{}; {}", caveat.what, caveat.advice),
        }
    }
}

impl Display for Note {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(recording) = &self.recording {
            write!(f, "{recording}: ")?;
        }
        self.doubt.fmt(f)
    }
}
