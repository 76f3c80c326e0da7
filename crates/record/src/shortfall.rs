//! Shortfalls: what a recording lacks, and what to do about it.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use laggard_model::text::Unit;
use laggard_model::{Caveat, CaveatKind, Nanos};

use crate::folder::SAMPLES;

/// Something that is missing from a recording, or damaged. Everything else in
/// it was read.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Shortfall {
    /// It has no end: the program runs yet, or was killed.
    NoEnd {
        /// The longest time that something waited to be written, so far; `None`:
        /// not known.
        written_within: Option<Nanos>,
    },
    /// A journal ends in bytes that are not a whole frame.
    JournalTorn {
        /// The journal's file name.
        file: String,
        /// Where the last whole frame ends.
        offset: u64,
        /// How many bytes follow.
        bytes: u64,
    },
    /// It has no end, and no journal of its last rows either.
    JournalGone,
    /// The manifest names a file that is not there.
    Gone {
        /// Its name.
        file: String,
        /// How many activations it held.
        rows: u64,
    },
    /// The histograms that could be read hold less than was counted.
    HistogramsShort {
        /// How many activations are missing.
        rows: u64,
    },
    /// Numbers of activations are missing that are not among the losses.
    Unexplained {
        /// How many rows are missing.
        rows: u64,
    },
    /// A file cannot be used.
    Damaged {
        /// Its name.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The manifest is gone or damaged; its copy from the start was used.
    ManifestFromStart {
        /// What is wrong with the manifest.
        reason: String,
    },
}

impl Shortfall {
    /// Whether a file of samples is not there.
    pub fn is_of_samples(&self) -> bool {
        matches!(self, Self::Gone { file, .. } if Path::new(file).starts_with(SAMPLES))
    }

    /// What to do about it.
    pub fn advice(&self) -> Cow<'static, str> {
        let known = match self {
            Self::NoEnd { written_within } => return no_end(*written_within),
            Self::JournalTorn { .. } => {
                "these are the activations that were being written when it stopped; the rest is complete"
            }
            Self::JournalGone => {
                "restore the file open-*.journal from a copy; up to 65536 activations at the end are missing"
            }
            Self::HistogramsShort { .. } => {
                "restore histograms-*.parquet from a copy; the figures leave these activations out"
            }
            Self::Unexplained { .. } => {
                "the figures leave them out and may hide late ones; restore the samples from a copy, or record again"
            }
            Self::Gone { .. } => {
                "restore the file from a copy; the figures leave its activations out"
            }
            Self::Damaged { .. } => {
                "restore the file from a copy and check the disk; the figures leave its activations out"
            }
            Self::ManifestFromStart { .. } => {
                "restore manifest.json from a copy; losses, caveats and cost are those of the start"
            }
        };
        known.into()
    }
}

/// What a kill can have cost. When it came nobody wrote down.
fn no_end(written_within: Option<Nanos>) -> Cow<'static, str> {
    match written_within {
        None => "if it no longer runs, what it had not written is missing; the figures hold for what is there".into(),
        Some(time) => format!(
            "if it no longer runs, what it had not written is missing: it wrote within {}, or later just before it was killed; the figures hold for what is there",
            Unit::Auto.write_nanos(time)
        )
        .into(),
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEnd { .. } => {
                f.write_str("the recording has no end: it still runs, or was killed")
            }
            Self::JournalTorn {
                file,
                offset,
                bytes,
            } => write!(
                f,
                "`{file}` has {bytes} bytes after byte {offset} that cannot be read"
            ),
            Self::JournalGone => f.write_str("the journal of the last activations is gone"),
            Self::Gone { file, rows } => {
                write!(f, "`{file}` with {rows} activations is gone")
            }
            Self::HistogramsShort { rows } => {
                write!(f, "{rows} activations are missing from the histograms")
            }
            Self::Unexplained { rows } => write!(
                f,
                "{rows} activations are missing that the recording does not count as lost"
            ),
            Self::Damaged { file, reason } => write!(f, "`{file}` is damaged: {reason}"),
            Self::ManifestFromStart { reason } => write!(
                f,
                "manifest.json cannot be used ({reason}); its copy from the start is used"
            ),
        }
    }
}

impl From<&Shortfall> for Caveat {
    fn from(shortfall: &Shortfall) -> Self {
        let kind = match shortfall {
            Shortfall::NoEnd { .. } | Shortfall::JournalTorn { .. } => CaveatKind::Unfinished,
            Shortfall::JournalGone
            | Shortfall::Gone { .. }
            | Shortfall::HistogramsShort { .. }
            | Shortfall::Unexplained { .. }
            | Shortfall::Damaged { .. }
            | Shortfall::ManifestFromStart { .. } => CaveatKind::Losses,
        };
        Self::new(kind, shortfall.to_string(), shortfall.advice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 17 s were lost under a load that left the writer no time.
    #[test]
    fn of_a_recording_that_was_killed_no_limit_is_promised() {
        let known = Shortfall::NoEnd {
            written_within: Some(Nanos::from_ms(210)),
        };
        let unknown = Shortfall::NoEnd {
            written_within: None,
        };

        for advice in [known.advice(), unknown.advice()] {
            assert!(advice.contains("had not written is missing"), "{advice}");
            assert!(!advice.contains("at most"), "{advice}");
        }
        assert!(
            known
                .advice()
                .contains("within 210 ms, or later just before")
        );
    }
}
