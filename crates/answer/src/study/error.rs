//! Errors of `laggard study`.

#![allow(
    clippy::disallowed_macros,
    reason = "the text of an error is part of its type"
)]

use std::io;
use std::path::PathBuf;

use laggard_record::OpenError;

use crate::load::LoadError;
use crate::why::EpisodesError;

/// No study has this name.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown study `{0}`")]
pub struct UnknownStudy(pub String);

/// Reason why recordings of a study cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// A recording cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A recording cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The trace data of a recording cannot be read.
    #[error(transparent)]
    Episodes(#[from] EpisodesError),
    /// A result cannot be read.
    #[error("cannot read `{}`", file.display())]
    Read {
        file: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// A file is not a result of this version of laggard.
    #[error("`{}` is not a result of this laggard; remove it to measure again", file.display())]
    Result {
        file: PathBuf,
        /// Reason.
        source: serde_json::Error,
    },
    /// The catalogue of applications is damaged. A test excludes this.
    #[error(transparent)]
    Catalogue(#[from] crate::qos::ApplicationError),
}
