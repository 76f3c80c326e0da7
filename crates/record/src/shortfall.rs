//! Shortfalls: what a recording lacks, and what to do about it.

use std::fmt;

use laggard_model::{Caveat, CaveatKind};

/// Something that is missing from a recording, or damaged. Everything else in
/// it was read.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Shortfall {
    /// It has no end: the program runs yet, or was killed.
    NoEnd,
    /// A journal ends in bytes that are not a whole frame.
    JournalTorn {
        /// The journal's file name.
        file: String,
        /// Where the last whole frame ends.
        offset: u64,
        /// How many bytes follow.
        bytes: u64,
    },
    /// The manifest names a file that is not there.
    Gone {
        /// Its name.
        file: String,
        /// How many activations it held.
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
    /// What to do about it.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::NoEnd => {
                "if it no longer runs, at most its last 10 s are missing; the figures hold for what is there"
            }
            Self::JournalTorn { .. } => {
                "these are the activations that were being written when it stopped; the rest is complete"
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
        }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEnd => f.write_str("the recording has no end: it still runs, or was killed"),
            Self::JournalTorn {
                file,
                offset,
                bytes,
            } => write!(
                f,
                "`{file}` has {bytes} bytes after byte {offset} that cannot be read"
            ),
            Self::Gone { file, rows } => {
                write!(f, "`{file}` with {rows} activations is gone")
            }
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
            Shortfall::NoEnd | Shortfall::JournalTorn { .. } => CaveatKind::Unfinished,
            Shortfall::Gone { .. }
            | Shortfall::Damaged { .. }
            | Shortfall::ManifestFromStart { .. } => CaveatKind::Losses,
        };
        Self::new(kind, shortfall.to_string(), shortfall.advice())
    }
}
