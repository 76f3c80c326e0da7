//! Copy of a recording without private names: names, arguments and paths are replaced
//! consistently, and all other data is unchanged.
//!
//! No file is copied. Every value is read, checked and written again. Data that no
//! reader uses (the rest of a file, its metadata, unknown files) is therefore not in
//! the copy.

// A new variant needs a decision here.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod known;
mod manifest;
mod names;
mod seen;

use std::path::PathBuf;
use std::{fs, io};

use laggard_model::{Batch, Line, Manifest, SegmentEntry, State};

pub use names::{NameSort, PublicNames, Redactor};

use crate::folder::{Folder, SAMPLES};
use crate::journal::Journal;
use crate::table::Damage;
use crate::{
    Access, Columns, CreateError, Destination, EpisodeWriter, OpenError, Recording, Shortfall,
    WriteError, disk, segment,
};

/// Rows of a journal frame.
const FRAME_ROWS: usize = 8_192;

/// Reason why the copy failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedactError {
    /// The copy could not be started.
    #[error(transparent)]
    Create(CreateError),
    /// The recording could not be read.
    #[error(transparent)]
    Read(#[from] OpenError),
    /// No space for the copy.
    #[error(
        "the disk is full: `{}` could not be written; free some space or choose another disk (the incomplete copy is removed)",
        .file.display()
    )]
    DiskFull {
        /// File that did not fit.
        file: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file of the copy would exceed the file size limit of this process.
    #[error(
        "`{}` would be larger than a file may be here; raise the limit (`ulimit -f unlimited`) or use another file system (the incomplete copy is removed)",
        .file.display()
    )]
    FileLimit {
        /// File.
        file: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The copy could not be written.
    #[error(transparent)]
    Write(WriteError),
    /// The incomplete copy could not be removed either.
    #[error("{why}; cannot remove the incomplete copy: remove `{}`", .folder.display())]
    Left {
        /// Directory of the copy.
        folder: PathBuf,
        /// Reason why the copy failed.
        why: Box<Self>,
        /// Error of the removal.
        source: io::Error,
    },
}

impl From<CreateError> for RedactError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Write(error) => error.into(),
            other @ (CreateError::NotEmpty(_)
            | CreateError::NotAFolder(_)
            | CreateError::Link(_)
            | CreateError::Unnameable { .. }
            | CreateError::ParentMissing(_)
            | CreateError::NotWritable { .. }
            | CreateError::Foreign(_)
            | CreateError::Misled(_)) => Self::Create(other),
        }
    }
}

/// A truncated recording is useful, half a copy is not.
impl From<WriteError> for RedactError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::DiskFull { file, source } => Self::DiskFull { file, source },
            WriteError::FileLimit { file, source } => Self::FileLimit { file, source },
            other @ (WriteError::Io { .. }
            | WriteError::Held { .. }
            | WriteError::UnknownLine { .. }
            | WriteError::Ragged(_)
            | WriteError::TooLarge { .. }
            | WriteError::Encode { .. }
            | WriteError::Manifest { .. }) => Self::Write(other),
        }
    }
}

/// Part that is not in the copy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeftOut {
    /// File name.
    pub file: String,
    /// Reason.
    pub reason: String,
}

/// Writes `from` without names to a directory at `to`, which must not exist or be
/// empty. One `redactor` replaces equal names in several recordings equally.
///
/// Returns the parts that are not in the copy: unreadable or unknown ones.
///
/// # Errors
/// If the recording cannot be listed, or the copy cannot be written. No file of the
/// copy remains then; an empty directory that existed before stays.
pub fn redact(
    from: &Recording,
    to: impl Into<Destination>,
    redactor: &mut Redactor,
) -> Result<Vec<LeftOut>, RedactError> {
    let to = to.into().take(Access::Private)?;
    let mut copy = Copy {
        from,
        to: &to,
        redactor,
        left_out: Vec::new(),
    };
    match copy.write() {
        Ok(()) => Ok(copy.left_out),
        // Half a copy would prevent another attempt.
        Err(why) => Err(match to.undo(disk::is_written) {
            Ok(()) => why,
            Err(source) => RedactError::Left {
                folder: to.path().into(),
                why: Box::new(why),
                source,
            },
        }),
    }
}

struct Copy<'a> {
    from: &'a Recording,
    to: &'a Folder,
    redactor: &'a mut Redactor,
    left_out: Vec<LeftOut>,
}

impl Copy<'_> {
    fn write(&mut self) -> Result<(), RedactError> {
        self.note_strangers()?;
        self.note_unread();
        self.to.make_samples()?;
        let mut manifest = self.redactor.manifest(&self.from.manifest);
        manifest.segments = self.segments()?;
        self.summaries()?;
        self.journal(&manifest)?;
        self.episodes()?;
        // Last, because a directory without it is not a recording.
        self.manifest(&manifest)
    }

    fn leave_out(&mut self, file: &str, reason: impl ToString) {
        self.left_out.push(LeftOut {
            file: file.into(),
            reason: reason.to_string(),
        });
    }

    /// Reports the files that no reader of a recording uses.
    fn note_strangers(&mut self) -> Result<(), OpenError> {
        let refused = |source| OpenError::Io {
            file: self.from.dir.clone(),
            source,
        };
        let mut strangers = Vec::new();
        for entry in fs::read_dir(&self.from.dir).map_err(refused)? {
            let name = entry.map_err(refused)?.file_name();
            let name = name.to_string_lossy().into_owned();
            if !disk::is_of_a_recording(&name) {
                strangers.push(name);
            }
        }
        strangers.sort_unstable();
        for name in strangers {
            self.leave_out(&name, "it is not part of a recording");
        }
        Ok(())
    }

    /// Reports the parts that could not be read when the recording was opened.
    fn note_unread(&mut self) {
        for shortfall in self.from.shortfalls() {
            match shortfall {
                Shortfall::Damaged { file, reason } => self.leave_out(file, reason),
                Shortfall::NoEnd { .. }
                | Shortfall::JournalTorn { .. }
                | Shortfall::JournalGone
                | Shortfall::Gone { .. }
                | Shortfall::HistogramsShort { .. }
                | Shortfall::Unexplained { .. }
                | Shortfall::EpisodesShort { .. }
                | Shortfall::ManifestFromStart { .. } => {}
            }
        }
    }

    /// Returns the readable segments, and the manifest's entries of all.
    fn segments(&mut self) -> Result<Vec<SegmentEntry>, WriteError> {
        let lines = self.from.manifest.lines.iter();
        let lines: Vec<Line> = lines.map(|&line| self.redactor.line(line)).collect();
        let mut entries: Vec<SegmentEntry> = self
            .from
            .manifest
            .segments
            .iter()
            .filter_map(|entry| {
                let file = disk::segment_name(number_of(&entry.file)?);
                Some(SegmentEntry {
                    file,
                    ..entry.clone()
                })
            })
            .collect();
        for file in &self.from.segments {
            let Some(number) = number_of(file) else {
                continue;
            };
            let name = disk::segment_name(number);
            let (mut rows, mut batch) = (Batch::default(), Batch::default());
            let read = self
                .from
                .scan_segment(file, Columns::all(), &mut batch, |batch| {
                    batch.iter().for_each(|row| rows.push(&row));
                });
            if let Err(damage) = read {
                self.leave_out(file, damage);
                continue;
            }
            let content = segment::encode(&rows, &lines).map_err(|source| WriteError::Encode {
                file: self.to.path().join(&name),
                source,
            })?;
            disk::place_soon(self.to, &name, &content)?;
            let entry = entries.iter_mut().find(|entry| entry.file == name);
            if let Some(entry) = entry {
                entry.bytes = content.len() as u64;
            }
        }
        Ok(entries)
    }

    fn summaries(&mut self) -> Result<(), WriteError> {
        let (from, to) = (self.from, self.to);
        for file in &from.histograms {
            self.place_summary(to, file, from.histograms_anew(file))?;
        }
        for file in &from.largest {
            self.place_summary(to, file, from.largest_anew(file))?;
        }
        Ok(())
    }

    fn place_summary(
        &mut self,
        to: &Folder,
        file: &str,
        content: Result<Vec<u8>, Damage>,
    ) -> Result<(), WriteError> {
        match content {
            // The name is safe: a prefix, digits and a suffix.
            Ok(content) => disk::place_soon(to, file, &content),
            Err(damage) => {
                self.leave_out(file, damage);
                Ok(())
            }
        }
    }

    /// Returns the rows that are in no segment. A recording without an end has a
    /// journal, even an empty one.
    fn journal(&mut self, manifest: &Manifest) -> Result<(), WriteError> {
        let is_gone = self.from.shortfalls().contains(&Shortfall::JournalGone);
        let rows = &self.from.open_rows;
        if rows.is_empty() && (manifest.state != State::Running || is_gone) {
            return Ok(());
        }
        let last = self.from.segments.iter().filter_map(|file| number_of(file));
        let number = last.max().unwrap_or_default().saturating_add(1);
        let mut journal = Journal::create(self.to, disk::journal_name(number))?;
        let mut frame = Batch::default();
        for part in rows.chunks(FRAME_ROWS) {
            frame.clear();
            part.iter().for_each(|row| frame.push(row));
            journal.append(&frame, 0..frame.len())?;
        }
        for shortfall in self.from.shortfalls() {
            // The same number of bytes, so that a reader reports the same.
            if let Shortfall::JournalTorn { bytes, .. } = shortfall {
                journal.tear(*bytes)?;
            }
        }
        Ok(())
    }

    fn episodes(&mut self) -> Result<(), RedactError> {
        let mut writer = EpisodeWriter::new(self.to);
        let mut written = Ok(());
        let redactor = &mut *self.redactor;
        let episodes = self.from.each_episode(|episode, _| {
            if written.is_ok() {
                written = writer.append(&redactor.episode(episode));
            }
        })?;
        written?;
        match episodes.notes {
            Some(notes) => writer.finish(&redactor.notes(notes))?,
            None => writer.finish_without_notes()?,
        }
        for shortfall in episodes.shortfalls {
            if let Shortfall::Damaged { file, reason } = shortfall {
                self.leave_out(&file, reason);
            }
        }
        Ok(())
    }

    fn manifest(&self, manifest: &Manifest) -> Result<(), RedactError> {
        let is_start =
            |shortfall: &Shortfall| matches!(shortfall, Shortfall::ManifestFromStart { .. });
        let name = if self.from.shortfalls().iter().any(is_start) {
            disk::MANIFEST_START
        } else {
            disk::MANIFEST
        };
        let json = serde_json::to_vec_pretty(manifest).map_err(|source| WriteError::Manifest {
            file: self.to.path().join(name),
            source,
        })?;
        Ok(disk::place(self.to, name, &json)?)
    }
}

/// Returns the number of a segment file, of this layout or the previous one.
fn number_of(file: &str) -> Option<u32> {
    let in_folder = disk::number_in(file, &format!("{SAMPLES}/"), ".parquet");
    in_folder.or_else(|| disk::number_in(file, "samples-", ".parquet"))
}
