//! What speaks against an answer.

use std::fmt::{self, Display, Formatter};

use laggard_model::Caveat;
use serde::{Serialize, Serializer};

use crate::trust::{Distrust, joined};

/// What speaks against a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum Doubt {
    /// Its figures cannot be trusted, for these reasons.
    Untrustworthy(Vec<Distrust>),
    /// Nothing was measured: a script was played.
    Scripted,
    /// So many activations were lost.
    Lost(u64),
    /// What it was recorded with.
    Caveat(Caveat),
}

/// What is missing from the recordings of an answer, or spoils it. Serialized
/// in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The recording; `None` where the answer is of one alone.
    pub recording: Option<String>,
    /// What speaks against it.
    pub doubt: Doubt,
}

impl Note {
    /// Whether everything that is answered is doubtful.
    pub const fn is_warning(&self) -> bool {
        matches!(self.doubt, Doubt::Untrustworthy(_) | Doubt::Scripted)
    }
}

impl Display for Doubt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untrustworthy(reasons) => write!(f, "NOT TRUSTWORTHY: {}", joined(reasons)),
            Self::Scripted => f.write_str("from a script: NOT a measurement"),
            Self::Lost(1) => f.write_str("1 activation was lost, which may have been a late one"),
            Self::Lost(lost) => {
                write!(
                    f,
                    "{lost} activations were lost, which may have been late ones"
                )
            }
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

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
