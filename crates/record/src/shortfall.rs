//! Shortfalls: missing parts of a recording, and their remedies.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use laggard_model::text::Unit;
use laggard_model::{Nanos, Severity};
use schemars::JsonSchema;
use serde::Serialize;

use crate::folder::SAMPLES;

/// Missing or damaged part of a recording. All other parts were read.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Shortfall {
    /// The end of the recording is missing: the program still runs, or was killed.
    NoEnd {
        /// Longest time that data has waited to be written; `None` if unknown.
        #[serde(rename = "written_within_ns", skip_serializing_if = "Option::is_none")]
        written_within: Option<Nanos>,
    },
    /// A journal ends in bytes that are not a complete frame.
    JournalTorn {
        /// File name of the journal.
        file: String,
        /// End of the last complete frame.
        offset: u64,
        /// Number of remaining bytes.
        bytes: u64,
    },
    /// The recording has neither an end nor a journal of its last rows.
    JournalGone,
    /// A file of the manifest does not exist.
    Gone {
        /// File name.
        file: String,
        /// Number of its activations.
        rows: u64,
    },
    /// The readable histograms hold less than was counted.
    HistogramsShort {
        /// Number of missing activations.
        rows: u64,
    },
    /// Activations are missing that are not among the losses.
    Unexplained {
        /// Number of missing rows.
        rows: u64,
    },
    /// Episodes that were kept cannot be read.
    EpisodesShort {
        /// Number of missing episodes.
        missing: u64,
        /// Number of kept episodes.
        kept: u64,
    },
    /// A file cannot be used.
    Damaged {
        /// File name.
        file: String,
        /// Reason.
        reason: String,
    },
    /// The manifest is missing or damaged; its copy from the start was used.
    ManifestFromStart {
        /// Damage of the manifest.
        reason: String,
    },
}

impl Shortfall {
    /// Returns whether a file of samples is missing.
    pub fn is_of_samples(&self) -> bool {
        matches!(self, Self::Gone { file, .. } if Path::new(file).starts_with(SAMPLES))
    }

    /// Returns whether only the end of the recording is missing.
    pub const fn is_of_end(&self) -> bool {
        matches!(self, Self::NoEnd { .. } | Self::JournalTorn { .. })
    }

    /// Returns the effect on the figures.
    pub const fn severity(&self) -> Severity {
        if self.is_of_end() {
            Severity::Matters
        } else {
            Severity::Spoils
        }
    }

    /// Returns the remedy.
    pub fn advice(&self) -> Cow<'static, str> {
        let advice = match self {
            Self::NoEnd { written_within } => return no_end(*written_within),
            Self::JournalTorn { .. } => "the samples of an interrupted write; the rest is complete",
            Self::JournalGone => {
                "restore the file open-*.journal from a copy; up to 65,536 samples at the end are missing"
            }
            Self::HistogramsShort { .. } => {
                "restore histograms-*.parquet from a copy; the figures omit these samples"
            }
            Self::EpisodesShort { .. } => {
                "restore episodes-*.jsonl.zst from a copy; the causes omit these wakeups"
            }
            Self::Unexplained { .. } => {
                "the figures omit them and may hide late ones; restore the samples from a copy, or record again"
            }
            Self::Gone { .. } => "restore the file from a copy; the figures omit its samples",
            Self::Damaged { .. } => {
                "restore the file from a copy and check the disk; the figures omit its content"
            }
            Self::ManifestFromStart { .. } => {
                "restore manifest.json from a copy; losses, warnings and overhead are from the start of the recording"
            }
        };
        advice.into()
    }
}

/// Returns the possible loss by a kill, whose time is not recorded.
fn no_end(written_within: Option<Nanos>) -> Cow<'static, str> {
    match written_within {
        None => "if it no longer runs, unwritten samples are missing; the figures are valid for the rest".into(),
        Some(time) => format!(
            "if it no longer runs, unwritten samples are missing: it wrote within {}, or later just before it was killed; the figures are valid for the rest",
            Unit::Auto.write_nanos(time)
        )
        .into(),
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEnd { .. } => {
                f.write_str("the recording is incomplete: it is still running, or was killed")
            }
            Self::JournalTorn {
                file,
                offset,
                bytes,
            } => write!(
                f,
                "`{file}` has {bytes} bytes after byte {offset} that cannot be read"
            ),
            Self::JournalGone => f.write_str("the journal of the last samples is missing"),
            Self::Gone { file, rows } => {
                write!(f, "`{file}` with {rows} samples is missing")
            }
            Self::HistogramsShort { rows } => {
                write!(f, "{rows} samples are missing from the histograms")
            }
            Self::Unexplained { rows } => write!(
                f,
                "{rows} samples are missing that the recording does not count as lost"
            ),
            Self::EpisodesShort { missing, kept } => write!(
                f,
                "the trace data of {missing} of {kept} late wakeups is missing"
            ),
            Self::Damaged { file, reason } => write!(f, "`{file}` is damaged: {reason}"),
            Self::ManifestFromStart { reason } => write!(
                f,
                "manifest.json cannot be used ({reason}); its copy from the start is used"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under a load that left the writer no time, 17 s were lost.
    #[test]
    fn advice_for_a_killed_recording_promises_no_limit() {
        let shortfall = Shortfall::NoEnd {
            written_within: Some(Nanos::from_ms(210)),
        };
        let unknown = Shortfall::NoEnd {
            written_within: None,
        };

        for advice in [shortfall.advice(), unknown.advice()] {
            assert!(advice.contains("unwritten samples are missing"), "{advice}");
            assert!(!advice.contains("at most"), "{advice}");
        }
        assert!(
            shortfall
                .advice()
                .contains("within 210 ms, or later just before")
        );
    }
}
