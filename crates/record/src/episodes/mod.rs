//! Episodes on disk: which late activations are kept, and their evidence.
//!
//! `episodes-000001.jsonl.zst` ...: a series of zstd frames, each of whole
//! lines, each line an episode as JSON; any zstd tool reads it as one file. A
//! frame is appended by one write. A kill in the middle of it leaves a torn
//! last frame; the reader stops there and says so. The disk is waited for at
//! the end only, because the caller has the probe's rings to empty.
//!
//! `episodes.json`: [`laggard_model::EpisodeNotes`]. It has the names of
//! addresses only once the recording has ended.

mod budget;
mod read;
mod select;
mod write;

pub use read::Episodes;
pub use select::{ChosenActivation, EpisodeSelector, PassedExpiry, Threshold};
pub use write::EpisodeWriter;

#[cfg(test)]
mod tests;
