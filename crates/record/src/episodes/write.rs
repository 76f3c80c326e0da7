//! Writing of episodes.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use laggard_model::{Episode, EpisodeNotes, Nanos};

use crate::error::unless_held;
use crate::folder::Folder;
use crate::{WriteError, disk};

/// Maximum wait of an episode before it is written.
pub const FLUSH_EVERY: Nanos = Nanos::from_secs(5);
/// Maximum number of waiting bytes.
const FLUSH_BYTES: usize = 1 << 20;
/// The next file starts after this file size.
const FILE_BYTES: u64 = 64 << 20;
const ZSTD_LEVEL: i32 = 1;

/// Writer of the episodes of a recording.
#[derive(Debug)]
pub struct EpisodeWriter {
    folder: Folder,
    /// Number of the open file.
    number: u32,
    file: Option<File>,
    /// Length of all complete frames of the open file.
    good: u64,
    waiting: Vec<u8>,
    flushed_at: Option<Nanos>,
}

impl EpisodeWriter {
    /// Creates a writer for the recording in `folder`. Without an episode, no file is
    /// created.
    pub fn new(folder: &Folder) -> Self {
        Self {
            folder: folder.clone(),
            number: 0,
            file: None,
            good: 0,
            waiting: Vec::new(),
            flushed_at: None,
        }
    }

    /// Adds an episode; it is on disk after the next due flush.
    ///
    /// # Errors
    /// If it cannot be encoded, or the disk refuses.
    pub fn append(&mut self, episode: &Episode) -> Result<(), WriteError> {
        serde_json::to_writer(&mut self.waiting, episode).map_err(|source| {
            WriteError::Manifest {
                file: self.folder.path().join(self.file_name()),
                source,
            }
        })?;
        self.waiting.push(b'\n');
        if self.waiting.len() >= FLUSH_BYTES {
            self.write_frame()
        } else {
            Ok(())
        }
    }

    /// Writes if a flush is due at `now`, `CLOCK_MONOTONIC`. A call within [`FLUSH_EVERY`]
    /// of the last write does nothing.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn flush(&mut self, now: Nanos, notes: &EpisodeNotes) -> Result<(), WriteError> {
        let due = self.flushed_at.is_none_or(|time| now >= time + FLUSH_EVERY);
        if due {
            self.flushed_at = Some(now);
            self.write_frame()?;
            let notes = self.encode(notes)?;
            unless_held(disk::place_soon(&self.folder, disk::EPISODE_NOTES, &notes))?;
        }
        Ok(())
    }

    /// Writes the waiting episodes, and the notes with the names.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn finish(mut self, notes: &EpisodeNotes) -> Result<(), WriteError> {
        self.write_frame()?;
        if let Some(file) = &self.file {
            file.sync_data()
                .map_err(|error| self.folder.error(&self.file_name(), error))?;
        }
        disk::place(&self.folder, disk::EPISODE_NOTES, &self.encode(notes)?)
    }

    /// Writes the waiting episodes without notes, as after an early kill.
    pub(crate) fn finish_without_notes(mut self) -> Result<(), WriteError> {
        self.write_frame()
    }

    fn write_frame(&mut self) -> Result<(), WriteError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let frame = zstd::bulk::compress(&self.waiting, ZSTD_LEVEL);
        let frame = frame.map_err(|error| self.folder.error(&self.file_name(), error))?;
        if self.file.is_none() || self.good >= FILE_BYTES {
            self.number += 1;
            self.good = 0;
            let file = self.folder.new_file(&self.file_name());
            self.file = Some(file.map_err(|error| self.folder.error(&self.file_name(), error))?);
        }
        let name = self.file_name();
        let failed = |error| self.folder.error(&name, error);
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let written = file
            .seek(SeekFrom::Start(self.good))
            .and_then(|_| file.write_all(&frame));
        if let Err(error) = written {
            // The next frame would follow a torn one and be unreadable.
            file.set_len(self.good).map_err(failed)?;
            return Err(failed(error));
        }
        self.good += frame.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Returns the name of the current or next file.
    fn file_name(&self) -> String {
        disk::episodes_name(self.number.max(1))
    }

    fn encode(&self, notes: &EpisodeNotes) -> Result<Vec<u8>, WriteError> {
        serde_json::to_vec(notes).map_err(|source| WriteError::Manifest {
            file: self.folder.path().join(disk::EPISODE_NOTES),
            source,
        })
    }
}
