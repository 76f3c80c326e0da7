//! Errors of recordings: fault, file, and remedy.

use std::io;
use std::path::{Path, PathBuf};

use laggard_files::is_held;
use parquet::errors::ParquetError;

/// Reason why a recording could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The directory exists and is not empty.
    #[error("`{}` exists and is not empty; choose another name or remove it", .0.display())]
    NotEmpty(PathBuf),
    /// A file of this name exists.
    #[error("`{}` is a file; choose another name for the recording's directory", .0.display())]
    NotAFolder(PathBuf),
    /// A link of this name exists.
    #[error("`{}` is a link; give the name of the directory that it points to", .0.display())]
    Link(PathBuf),
    /// Another user created the directory in a world-writable one.
    #[error(
        "the directory `{}` belongs to another user, who could change the recording; choose another name",
        .0.display()
    )]
    Foreign(PathBuf),
    /// A link in the path belongs to another user.
    #[error("a recording's directory must not be reached through links of other users")]
    Misled(#[source] io::Error),
    /// The system does not permit a directory of this name, or would use another name.
    #[error("`{}` cannot be a recording's directory: {why}; choose another name", .dir.display())]
    Unnameable {
        /// Directory of the recording.
        dir: PathBuf,
        /// Meaning of the name instead.
        why: &'static str,
    },
    /// The parent directory does not exist.
    #[error("the directory `{}` does not exist; create it first", .0.display())]
    ParentMissing(PathBuf),
    /// The directory cannot be created or written.
    #[error("`{}` cannot be created; check the permissions of its parent directory", .dir.display())]
    NotWritable {
        /// Directory of the recording.
        dir: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The first files could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Reason why data could not be added to a recording. Earlier data stays readable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No space left, or the quota is exhausted.
    #[error(
        "the disk is full: `{}` could not be written; free some space or record to another disk (what was written before is kept)",
        .file.display()
    )]
    DiskFull {
        /// File that did not fit.
        file: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file would exceed the file size limit of this process.
    #[error(
        "`{}` would be larger than a file may be here; raise the limit (`ulimit -f unlimited`) or use another file system (what was written before is kept)",
        .file.display()
    )]
    FileLimit {
        /// File.
        file: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Windows only: another program has the file open.
    #[error("`{}` could not be written: another program has it open; close it there", .file.display())]
    Held {
        /// File.
        file: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The system refused for another reason.
    #[error("`{}` could not be written; check that its disk is present and writable", .file.display())]
    Io {
        /// File.
        file: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// An activation has a line that is not in the manifest.
    #[error(
        "a wakeup belongs to series {line}, but the manifest has {lines}; add the series to the manifest first"
    )]
    UnknownLine {
        /// Line of the activation.
        line: u16,
        /// Number of lines in the manifest.
        lines: usize,
    },
    /// The columns of a batch differ in length.
    #[error(
        "the batch's columns differ in length ({0}); fill every column or leave a stage's column empty"
    )]
    Ragged(&'static str),
    /// A number is larger than the format permits.
    #[error(
        "{what} {value} of line {line} is too large to be a measurement; check the clock that it was read from"
    )]
    TooLarge {
        /// Quantity.
        what: &'static str,
        /// Value, ns for a time.
        value: u64,
        /// Line of the activation.
        line: u16,
    },
    /// The Parquet encoder failed.
    #[error("`{}` could not be encoded; please report this with the version of laggard", .file.display())]
    Encode {
        /// File.
        file: PathBuf,
        /// Error of the encoder.
        source: ParquetError,
    },
    /// The manifest could not be converted to JSON.
    #[error("`{}` could not be encoded; please report this with the version of laggard", .file.display())]
    Manifest {
        /// File.
        file: PathBuf,
        /// Error of the encoder.
        source: serde_json::Error,
    },
}

impl WriteError {
    /// Distinguishes a full disk from other errors.
    pub(crate) fn io(file: &Path, source: io::Error) -> Self {
        let file = file.to_path_buf();
        let is = |kind| source.kind() == kind;
        if is(io::ErrorKind::StorageFull) || is(io::ErrorKind::QuotaExceeded) {
            Self::DiskFull { file, source }
        } else if is(io::ErrorKind::FileTooLarge) {
            Self::FileLimit { file, source }
        } else if cfg!(windows) && is_held(&source) {
            Self::Held { file, source }
        } else {
            Self::Io { file, source }
        }
    }
}

/// Ignores a held file: periodic writes can wait.
pub(crate) fn unless_held(written: Result<(), WriteError>) -> Result<(), WriteError> {
    match written {
        Err(WriteError::Held { .. }) => Ok(()),
        written => written,
    }
}

/// Reason why a recording could not be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path does not exist.
    #[error("there is no recording `{}`; check the name (a recording is a directory, usually NAME.laggard)", .0.display())]
    Missing(PathBuf),
    /// The directory is not a recording.
    #[error("`{}` is not a recording: it has no manifest.json; give the directory that `record` wrote", .0.display())]
    NotARecording(PathBuf),
    /// The manifest and its copy are missing, but samples exist.
    #[error(
        "`{}` has {segments} sample files but neither manifest.json nor manifest-start.json; restore one of them from a copy, or read the samples with any Parquet reader",
        .dir.display()
    )]
    ManifestGone {
        /// Directory of the recording.
        dir: PathBuf,
        /// Number of sample files.
        segments: usize,
    },
    /// The manifest and its copy cannot be parsed.
    #[error(
        "`{}` is damaged; restore it from a copy, or read the samples with any Parquet reader",
        .file.display()
    )]
    ManifestDamaged {
        /// File.
        file: PathBuf,
        /// Error of the decoder.
        source: serde_json::Error,
    },
    /// A later version of the program wrote it.
    #[error("`{}` has layout version {found}, this program reads up to {known}; use a newer laggard", .dir.display())]
    Newer {
        /// Directory of the recording.
        dir: PathBuf,
        /// Its version.
        found: u64,
        /// Latest version that this program reads.
        known: u32,
    },
    /// The system refused.
    #[error("`{}` cannot be read; check its permissions", .file.display())]
    Io {
        /// File or directory.
        file: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}
