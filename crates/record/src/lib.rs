//! Recording on disk: a kill loses little data, and a reader detects damage.
//!
//! [`Recorder`] writes, [`Recording`] reads. `docs/reference/recording-format.md`
//! describes the files for other programs.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod destination;
mod disk;
mod episodes;
mod error;
mod folder;
mod gate;
#[cfg(unix)]
mod hand_over;
mod journal;
mod name;
mod numbers;
mod recorder;
mod recording;
mod redact;
mod scan;
mod segment;
mod shortfall;
mod summary;
mod table;

pub use destination::Destination;
pub use disk::put_answer;
pub use episodes::{
    ChosenActivation, EpisodeSelector, EpisodeWriter, Episodes, FLUSH_EVERY, PassedExpiry,
    Threshold,
};
pub use error::{CreateError, OpenError, WriteError};
pub use folder::Folder;
pub use laggard_files::Access;
pub use recorder::Recorder;
pub use recording::Recording;
pub use redact::{LeftOut, NameSort, PublicNames, RedactError, Redactor, redact};
pub use segment::Columns;
pub use shortfall::Shortfall;
pub use summary::{FigureHour, Largest};
pub use table::hush_damage;
