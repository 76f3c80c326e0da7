//! Writing a recording.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use laggard_model::{
    Batch, LineCount, LossReason, Manifest, Nanos, SCHEMA_VERSION, SegmentEntry, State,
};

use crate::journal::Journal;
use crate::segment::{self, SEGMENT_ROWS};
use crate::{CreateError, WriteError, disk};

/// Rows of a journal frame at most.
const FRAME_ROWS: usize = 8_192;
/// How often the journal is synced and the manifest rewritten.
const SYNC_EVERY: Nanos = Nanos::from_secs(5);
/// The smallest reserve: room for the last manifest and the last segment.
const RESERVE_BYTES: usize = 1 << 20;
/// A step above this (104 days) is no measurement; sums of squares stay exact.
const LONGEST_STEP_NS: u64 = 1 << 53;

/// Writes a recording, so that a kill at any instant leaves it readable.
///
/// Rows go to a journal first. When it has a segment's worth, they become a
/// Parquet file of the same number, and the next journal begins; a journal
/// whose segment is in place no longer counts. After an error the recorder can
/// still be finished, and should be.
#[derive(Debug)]
pub struct Recorder {
    dir: PathBuf,
    manifest: Manifest,
    /// Number of the open segment.
    number: u32,
    /// The open segment's rows; the same as in the journal.
    open: Batch,
    journal: Journal,
    reserve_bytes: usize,
    written_bytes: u64,
    synced_at: Option<Nanos>,
}

impl Recorder {
    /// Begins a recording in `dir`, which must not exist or be empty.
    ///
    /// # Errors
    /// When the folder is in use, its parent is missing, or it cannot be written.
    pub fn create(dir: impl Into<PathBuf>, manifest: Manifest) -> Result<Self, CreateError> {
        let dir = dir.into();
        make_folder(&dir)?;
        let journal = Journal::create(dir.join(disk::journal_name(1)))?;
        let mut recorder = Self {
            dir,
            manifest: Manifest {
                schema: SCHEMA_VERSION,
                state: State::Running,
                segments: Vec::new(),
                ..manifest
            },
            number: 1,
            open: Batch::default(),
            journal,
            reserve_bytes: 0,
            written_bytes: 0,
            synced_at: None,
        };
        recorder.write_manifest(disk::MANIFEST_START)?;
        recorder.write_manifest(disk::MANIFEST)?;
        Ok(recorder)
    }

    /// Adds activations.
    ///
    /// # Errors
    /// When a row cannot belong to this recording (none is added then), or
    /// when the disk refuses. Rows that are not stored are counted as lost.
    pub fn append(&mut self, batch: &Batch) -> Result<(), WriteError> {
        let mut stored = 0;
        let result = check(batch, self.manifest.lines.len()).and_then(|()| {
            while stored < batch.len() {
                let rows = stored..batch.len().min(stored + FRAME_ROWS);
                let written = self
                    .journal
                    .append(rows.clone().map(|row| batch.get(row)))?;
                self.written_bytes += written;
                stored = rows.end;
                rows.for_each(|row| self.open.push(&batch.get(row)));
                if self.open.len() >= SEGMENT_ROWS {
                    self.close_segment()?;
                }
            }
            Ok(())
        });
        let lost = (batch.len() - stored) as u64;
        self.manifest.losses.add(LossReason::NotWritten, lost);
        result
    }

    /// Changes the manifest: losses, caveats, cost, clock, load. It reaches the
    /// disk with the next flush. The recorder itself keeps the state, counts
    /// and segments, and adds to `cost.written_bytes` and `losses.not_written`.
    pub fn update(&mut self, change: impl FnOnce(&mut Manifest)) {
        change(&mut self.manifest);
    }

    /// The manifest as it stands.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Bytes written so far, the journal included.
    pub const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Does what is due at `now`, `CLOCK_MONOTONIC`. Call it about every second.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn flush(&mut self, now: Nanos) -> Result<(), WriteError> {
        let due = |last: Option<Nanos>, every| last.is_none_or(|last| now >= last + every);
        if due(self.synced_at, SYNC_EVERY) {
            self.synced_at = Some(now);
            self.journal.sync()?;
            self.write_manifest(disk::MANIFEST)?;
        }
        Ok(())
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// When the disk refuses. The manifest then says `failed` if it can still
    /// be written; the space set aside at the start is there for that.
    pub fn finish(mut self, state: State) -> Result<Manifest, WriteError> {
        let reserve = self.dir.join(disk::RESERVE);
        let released = fs::remove_file(&reserve).map_err(|error| WriteError::io(&reserve, error));
        let closed = match self.open.is_empty() {
            true => Ok(()),
            false => self.close_segment(),
        };
        let stored = released.and(closed);
        self.reserve_bytes = usize::MAX;
        self.manifest.state = match &stored {
            Err(error) if state == State::Complete || state == State::Interrupted => {
                State::Failed {
                    error: error.to_string(),
                }
            }
            _ => state,
        };
        self.write_manifest(disk::MANIFEST)?;
        if self.open.is_empty() {
            remove(self.journal.path())?;
        }
        stored.map(|()| self.manifest)
    }

    /// Turns the open rows into a Parquet file and begins the next journal.
    fn close_segment(&mut self) -> Result<(), WriteError> {
        let name = disk::segment_name(self.number);
        let content = segment::encode(&self.open, &self.manifest.lines).map_err(|source| {
            let file = self.dir.join(&name);
            WriteError::Encode { file, source }
        })?;
        // The next journal first: once the segment is in place, nothing may
        // be appended to the old one.
        let next = Journal::create(self.dir.join(disk::journal_name(self.number + 1)))?;
        if let Err(error) = disk::place(&self.dir, &name, &content) {
            remove(next.path())?;
            return Err(error);
        }
        self.written_bytes += content.len() as u64;
        self.list_segment(name, content.len() as u64);
        let old = std::mem::replace(&mut self.journal, next);
        self.number += 1;
        self.open.clear();
        self.write_manifest(disk::MANIFEST)?;
        remove(old.path())
    }

    fn list_segment(&mut self, file: String, bytes: u64) {
        let (lines, rows) = (self.manifest.lines.len(), &self.open);
        self.manifest.counts.resize(lines, LineCount::default());
        for (line, missed) in rows.line.iter().zip(&rows.missed) {
            let count = &mut self.manifest.counts[usize::from(line.0)];
            match missed {
                true => count.missed += 1,
                false => count.served += 1,
            }
        }
        let first = rows.expiry_ns.iter().min().copied().unwrap_or_default();
        let last = rows.expiry_ns.iter().max().copied().unwrap_or_default();
        self.manifest.segments.push(SegmentEntry {
            file,
            rows: rows.len() as u64,
            bytes,
            first_ns: Nanos::from_ns(first),
            last_ns: Nanos::from_ns(last),
        });
    }

    fn write_manifest(&mut self, name: &str) -> Result<(), WriteError> {
        self.manifest.cost.written_bytes = self.written_bytes;
        let json = serde_json::to_vec_pretty(&self.manifest).map_err(|source| {
            let file = self.dir.join(name);
            WriteError::Manifest { file, source }
        })?;
        let room = RESERVE_BYTES + 2 * json.len();
        if self.reserve_bytes < room {
            // Twice what is needed, so that it seldom grows.
            disk::place(&self.dir, disk::RESERVE, &vec![0xA5; 2 * room])?;
            self.reserve_bytes = 2 * room;
        }
        disk::place(&self.dir, name, &json)?;
        self.written_bytes += json.len() as u64;
        Ok(())
    }
}

fn remove(file: &Path) -> Result<(), WriteError> {
    fs::remove_file(file).map_err(|error| WriteError::io(file, error))
}

fn make_folder(dir: &Path) -> Result<(), CreateError> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        return Err(CreateError::ParentMissing(parent.into()));
    }
    let not_writable = |source| CreateError::NotWritable {
        dir: dir.into(),
        source,
    };
    match fs::create_dir(dir) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !dir.is_dir() {
                return Err(CreateError::NotAFolder(dir.into()));
            }
            match fs::read_dir(dir).map_err(not_writable)?.next() {
                None => Ok(()),
                Some(_) => Err(CreateError::NotEmpty(dir.into())),
            }
        }
        Err(error) => Err(match WriteError::io(dir, error) {
            full @ WriteError::DiskFull { .. } => full.into(),
            WriteError::Io { source, .. } => not_writable(source),
            other => other.into(),
        }),
    }
}

/// Whether every row of a batch can be stored and read back the same.
fn check(batch: &Batch, lines: usize) -> Result<(), WriteError> {
    let rows = batch.len();
    let whole = [batch.seq.len(), batch.expiry_ns.len(), batch.missed.len()];
    if whole.iter().any(|&length| length != rows) {
        return Err(WriteError::Ragged("seq, expiry or missed"));
    }
    let steps = &batch.step_ns;
    if steps
        .iter()
        .any(|step| !step.is_empty() && step.len() != rows)
    {
        return Err(WriteError::Ragged("a stage"));
    }
    for (row, &line) in batch.line.iter().enumerate() {
        if usize::from(line.0) >= lines {
            return Err(WriteError::UnknownLine {
                line: line.0,
                lines,
            });
        }
        let largest = i64::MAX.cast_unsigned();
        let step = steps
            .iter()
            .filter_map(|step| step.get(row))
            .filter(|&&ns| ns != Batch::ABSENT)
            .max();
        for (what, value, limit) in [
            ("the sequence number", batch.seq[row], largest),
            ("the expiry", batch.expiry_ns[row], largest),
            (
                "a stage's time",
                step.copied().unwrap_or_default(),
                LONGEST_STEP_NS,
            ),
        ] {
            if value > limit {
                let line = line.0;
                return Err(WriteError::TooLarge { what, value, line });
            }
        }
    }
    Ok(())
}
