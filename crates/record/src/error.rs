//! What can go wrong with a recording: what, where, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use laggard_files::is_held;
use parquet::errors::ParquetError;

/// Why a recording could not be begun.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The folder exists and has something in it.
    #[error("`{}` exists and is not empty; choose another name or remove it", .0.display())]
    NotEmpty(PathBuf),
    /// There is a file of this name.
    #[error("`{}` is a file; choose another name for the recording's folder", .0.display())]
    NotAFolder(PathBuf),
    /// There is a link of this name.
    #[error("`{}` is a link; give the name of the folder that it leads to", .0.display())]
    Link(PathBuf),
    /// Another user made the directory, in one that everybody may write to.
    #[error(
        "the directory `{}` belongs to another user, who could change the recording; choose another name",
        .0.display()
    )]
    Foreign(PathBuf),
    /// A link on the way belongs to another user.
    #[error("a recording's directory must not be reached through links of other users")]
    Misled(#[source] io::Error),
    /// The system gives no folder this name, or another one.
    #[error("`{}` cannot be a recording's folder: {why}; choose another name", .dir.display())]
    Unnameable {
        /// The recording's folder.
        dir: PathBuf,
        /// What the name is instead.
        why: &'static str,
    },
    /// The folder that is to hold the recording does not exist.
    #[error("the folder `{}` does not exist; create it first", .0.display())]
    ParentMissing(PathBuf),
    /// The folder cannot be made or written.
    #[error("`{}` cannot be created; check the permissions of the folder that holds it", .dir.display())]
    NotWritable {
        /// The recording's folder.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The first files could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why something could not be added to a recording. What was written before
/// stays readable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No space left, or the quota is used up.
    #[error(
        "the disk is full: `{}` could not be written; free some space or record to another disk (what was written before is kept)",
        .file.display()
    )]
    DiskFull {
        /// The file that did not fit.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file would be larger than this process may write.
    #[error(
        "`{}` would be larger than a file may be here; raise the limit (`ulimit -f unlimited`) or use another file system (what was written before is kept)",
        .file.display()
    )]
    FileLimit {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Windows keeps a file that another program has open.
    #[error("`{}` could not be written: another program has it open; close it there", .file.display())]
    Held {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused for another reason.
    #[error("`{}` could not be written; check that its disk is present and writable", .file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An activation names a line that the manifest does not have.
    #[error(
        "an activation belongs to line {line}, but the manifest has {lines} lines; add the line to the manifest first"
    )]
    UnknownLine {
        /// The activation's line.
        line: u16,
        /// How many the manifest has.
        lines: usize,
    },
    /// A batch's columns do not belong together.
    #[error(
        "the batch's columns differ in length ({0}); fill every column or leave a stage's column empty"
    )]
    Ragged(&'static str),
    /// A number is larger than the format holds.
    #[error(
        "{what} {value} of line {line} is too large to be a measurement; check the clock that it was read from"
    )]
    TooLarge {
        /// What the number counts.
        what: &'static str,
        /// Its value, ns where it is a time.
        value: u64,
        /// The activation's line.
        line: u16,
    },
    /// The Parquet encoder refused.
    #[error("`{}` could not be encoded; please report this with the version of laggard", .file.display())]
    Encode {
        /// The file.
        file: PathBuf,
        /// What the encoder said.
        source: ParquetError,
    },
    /// The manifest could not be turned into JSON.
    #[error("`{}` could not be encoded; please report this with the version of laggard", .file.display())]
    Manifest {
        /// The file.
        file: PathBuf,
        /// What the encoder said.
        source: serde_json::Error,
    },
}

impl WriteError {
    /// Tells a full disk from other refusals.
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

/// What is written again and again need not be written now.
pub(crate) fn unless_held(written: Result<(), WriteError>) -> Result<(), WriteError> {
    match written {
        Err(WriteError::Held { .. }) => Ok(()),
        written => written,
    }
}

/// Why a recording could not be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is nothing of this name.
    #[error("there is no recording `{}`; check the name (a recording is a folder, usually NAME.laggard)", .0.display())]
    Missing(PathBuf),
    /// It is a folder, but not a recording.
    #[error("`{}` is not a recording: it has no manifest.json; give the folder that `record` wrote", .0.display())]
    NotARecording(PathBuf),
    /// The manifest and its copy are gone, but samples are there.
    #[error(
        "`{}` has {segments} sample files but neither manifest.json nor manifest-start.json; restore one of them from a copy, or read the samples with any Parquet reader",
        .dir.display()
    )]
    ManifestGone {
        /// The recording's folder.
        dir: PathBuf,
        /// How many sample files are there.
        segments: usize,
    },
    /// The manifest and its copy cannot be understood.
    #[error(
        "`{}` is damaged; restore it from a copy, or read the samples with any Parquet reader",
        .file.display()
    )]
    ManifestDamaged {
        /// The file.
        file: PathBuf,
        /// What the decoder said.
        source: serde_json::Error,
    },
    /// A later version of the program wrote it.
    #[error("`{}` has layout version {found}, this program reads up to {known}; use a newer laggard", .dir.display())]
    Newer {
        /// The recording's folder.
        dir: PathBuf,
        /// Its version.
        found: u64,
        /// The latest that this program reads.
        known: u32,
    },
    /// The system refused.
    #[error("`{}` cannot be read; check its permissions", .file.display())]
    Io {
        /// The file or folder.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
