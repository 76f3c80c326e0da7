//! Episodes on disk: selection of late wakeups, and their evidence.
//!
//! `episodes-000001.jsonl.zst` ...: a series of zstd frames of whole lines, each line
//! an episode as JSON. Any zstd tool reads it as one file. A frame is appended by one
//! write. A kill during the write leaves a torn last frame; the reader stops there and
//! reports it. Only the end waits for the disk, because the caller has to drain the
//! probe's rings.
//!
//! `episodes.json`: [`laggard_model::EpisodeNotes`]. It has the names of addresses only
//! after the end of the recording.

mod budget;
mod events;
mod read;
mod select;
mod write;

pub use read::Episodes;
pub use select::{ChosenActivation, EpisodeSelector, PassedExpiry, Threshold};
pub use write::{EpisodeWriter, FLUSH_EVERY};

#[cfg(test)]
mod tests;
