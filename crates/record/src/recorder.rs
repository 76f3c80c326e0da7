//! Writing of a recording.

use laggard_model::{
    Account, Batch, Keep, LineCount, Manifest, Nanos, SCHEMA_VERSION, SegmentEntry, State,
};

use crate::error::unless_held;
use crate::folder::Folder;
use crate::gate::{Limits, TooLarge};
use crate::journal::Journal;
use crate::recording::check as check_manifest;
use crate::segment::{self, SEGMENT_ROWS};
use crate::summary::Counting;
use crate::{Access, CreateError, Destination, WriteError, disk};

/// Maximum number of rows of a journal frame.
const FRAME_ROWS: usize = 8_192;
/// Interval between syncs of the journal and rewrites of the manifest.
const SYNC_EVERY: Nanos = Nanos::from_secs(5);
/// Interval between rewrites of the summaries. The margin below 10 s allows for a call of `flush`
/// every second.
const SUM_EVERY: Nanos = Nanos::from_secs(8);
/// Minimum reserve: room for the last manifest and the last segment.
const RESERVE_BYTES: usize = 1 << 20;
/// A manifest up to this size is rewritten whenever it is due.
const SMALL_MANIFEST: u64 = 64 << 10;
/// Number of attempts for the last manifest, one per second, if another program has it
/// open.
const LAST_TRIES: usize = 10;

/// Writer of a recording that stays readable after a kill at any time.
///
/// Rows go to a journal first. When it has enough rows for a segment, they become a
/// Parquet file of the same number, and the next journal starts. A journal whose
/// segment exists no longer counts. After an error the recorder can and should still be
/// finished.
#[derive(Debug)]
pub struct Recorder {
    folder: Folder,
    manifest: Manifest,
    /// Number of the open segment.
    number: u32,
    /// Rows of the open segment; the same as in the journal.
    open: Batch,
    journal: Journal,
    reserve_bytes: usize,
    written_bytes: u64,
    /// Activations that were to be stored and are not.
    not_written: u64,
    /// Lost activations that are in no other count, per line.
    lost: Vec<u64>,
    /// The probe's account of each line's plan.
    accounts: Vec<Account>,
    /// Longest time that data waited to be written.
    written_within: Option<Nanos>,
    synced_at: Option<Nanos>,
    /// Size of the last manifest, and the number of bytes written by then.
    last_manifest: (u64, u64),
    /// Number of lines in the manifest on disk.
    lines_written: usize,
    /// Present if only the tail is kept.
    counting: Option<Counting>,
    summed_at: Option<Nanos>,
}

impl Recorder {
    /// Checks whether a recording can be started at `place`. Leaves no file.
    ///
    /// # Errors
    /// As for [`Recorder::create`].
    pub fn check(place: &Destination) -> Result<(), CreateError> {
        let folder = place.take(Access::Private)?;
        let trial = disk::place_soon(&folder, disk::RESERVE, b"trial");
        let gone = trial.and_then(|()| folder.remove_file(disk::RESERVE));
        folder
            .remove()
            .map_err(|error| WriteError::io(place.path(), error))?;
        Ok(gone?)
    }

    /// Starts a recording at `place`, which must not exist or be empty. Only the owner
    /// may read it.
    ///
    /// # Errors
    /// If the directory is not empty, its parent is missing, or it cannot be written.
    pub fn create(place: impl Into<Destination>, manifest: Manifest) -> Result<Self, CreateError> {
        Self::create_for(place, manifest, Access::Private)
    }

    /// Starts a recording with `access` to it. An existing empty directory keeps its
    /// access rights and applies them to new files.
    ///
    /// # Errors
    /// As for [`Recorder::create`].
    pub fn create_for(
        place: impl Into<Destination>,
        manifest: Manifest,
        access: Access,
    ) -> Result<Self, CreateError> {
        let place = place.into();
        let folder = place.take(access)?;
        let recorder = Self::begin(folder.clone(), manifest).inspect_err(|_| {
            // Remaining files would prevent another attempt. Best effort: the returned
            // error is more important than a second one.
            let _ = folder.undo(disk::is_written);
        })?;
        place.begun(folder);
        Ok(recorder)
    }

    fn begin(folder: Folder, manifest: Manifest) -> Result<Self, CreateError> {
        // The manifest's first writing syncs the parent directory.
        folder.make_samples()?;
        let journal = Journal::create(&folder, disk::journal_name(1))?;
        let counting = match manifest.plan.keep {
            Keep::All => None,
            Keep::Tail => Some(Counting::new(manifest.clock.start_ns)),
        };
        let mut recorder = Self {
            folder,
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
            not_written: 0,
            lost: Vec::new(),
            accounts: Vec::new(),
            written_within: None,
            synced_at: None,
            last_manifest: (0, 0),
            lines_written: 0,
            counting,
            summed_at: None,
        };
        recorder.write_manifest(disk::MANIFEST_START)?;
        recorder.write_manifest(disk::MANIFEST)?;
        Ok(recorder)
    }

    /// Adds activations.
    ///
    /// # Errors
    /// If a row cannot belong to this recording (then none is added), or if the disk
    /// refuses. Rows that are not stored are counted as lost.
    pub fn append(&mut self, batch: &Batch) -> Result<(), WriteError> {
        if let Err(error) = check(batch, self.manifest.lines.len(), self.limits()) {
            for line in &batch.line {
                self.lose_of_line(line.0.into(), 1);
            }
            self.own_figures();
            return Err(error);
        }
        let Some(counting) = &mut self.counting else {
            return self.store(batch);
        };
        let mut tail = Batch::default();
        batch
            .iter()
            .filter(|row| counting.add(row))
            .for_each(|row| tail.push(&row));
        self.store(&tail)
    }

    fn limits(&self) -> Limits {
        Limits::since(self.manifest.clock.start_ns)
    }

    fn store(&mut self, batch: &Batch) -> Result<(), WriteError> {
        // After a kill, rows of a line that is not in the manifest could not be
        // assigned.
        if self.lines_written < self.manifest.lines.len()
            && let Err(error) = self.write_manifest(disk::MANIFEST)
        {
            self.count_lost(batch, 0..batch.len());
            return Err(error);
        }
        let mut stored = 0;
        while stored < batch.len() {
            let rows = stored..batch.len().min(stored + FRAME_ROWS);
            match self.journal.append(batch, rows.clone()) {
                Ok(bytes) => self.written_bytes += bytes,
                Err(error) => {
                    self.count_lost(batch, stored..batch.len());
                    return Err(error);
                }
            }
            stored = rows.end;
            self.open.extend(batch, rows);
            if self.open.len() >= SEGMENT_ROWS
                && let Err(error) = self.close_segment()
            {
                self.count_lost(batch, stored..batch.len());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Changes the manifest: losses, caveats, cost, clock, load. It reaches the disk
    /// with the next flush, or before the first row of a new line. Lines can be added,
    /// not changed. The recorder itself maintains the state, counts, segments,
    /// `cost.written_bytes` and `losses.not_written`; changes of these are ignored.
    pub fn update(&mut self, change: impl FnOnce(&mut Manifest)) {
        let lines = self.manifest.lines.clone();
        let counts = std::mem::take(&mut self.manifest.counts);
        let segments = std::mem::take(&mut self.manifest.segments);
        change(&mut self.manifest);
        if !self.manifest.lines.starts_with(&lines) {
            self.manifest.lines = lines;
        }
        self.manifest.counts = counts;
        self.manifest.segments = segments;
        self.manifest.state = State::Running;
        self.own_figures();
    }

    /// Records the time that data waited to be written.
    pub fn waited(&mut self, time: Nanos) {
        let time = match &self.counting {
            None => time,
            // Summarised data is in no journal and is written periodically.
            Some(_) => time + SUM_EVERY,
        };
        self.written_within = self.written_within.max(Some(time));
        self.own_figures();
    }

    /// Records the account of each line's plan in addition to the activations: losses
    /// so far and, at the end, the planned number.
    pub fn account(&mut self, accounts: Vec<Account>) {
        self.accounts = accounts;
        self.own_figures();
    }

    fn own_figures(&mut self) {
        self.manifest.schema = SCHEMA_VERSION;
        self.manifest.cost.written_bytes = self.written_bytes;
        self.manifest.losses.not_written = self.not_written;
        self.manifest.written_within_ns = self.written_within;
        let lines = self.manifest.lines.len();
        self.manifest.counts.resize(lines, LineCount::default());
        for (line, count) in self.manifest.counts.iter_mut().enumerate() {
            let account = self.accounts.get(line).copied().unwrap_or_default();
            let not_written = self.lost.get(line).copied().unwrap_or_default();
            count.planned = account.planned;
            count.run_delay = account.run_delay;
            count.lost = account.lost + not_written;
        }
    }

    /// Counts activations that could not be stored, for lack of time or memory, per
    /// line.
    pub fn lose(&mut self, activations: &[u64]) {
        for (line, &count) in activations.iter().enumerate() {
            self.lose_of_line(line, count);
        }
        self.own_figures();
    }

    fn lose_of_line(&mut self, line: usize, count: u64) {
        self.not_written += count;
        if line < self.manifest.lines.len() {
            let lines = self.lost.len().max(line + 1);
            self.lost.resize(lines, 0);
            self.lost[line] += count;
        }
    }

    /// Counts rows of a batch that could not be stored. With `keep: tail`, the
    /// histograms have them nevertheless.
    fn count_lost(&mut self, batch: &Batch, rows: std::ops::Range<usize>) {
        for row in rows {
            match &self.counting {
                None => self.lose_of_line(batch.line[row].0.into(), 1),
                Some(_) => self.not_written += 1,
            }
        }
        self.own_figures();
    }

    /// Returns the directory of the recording.
    pub const fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Returns the current manifest.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the number of bytes written so far, including the journal.
    pub const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Writes if a flush is due at `now`, `CLOCK_MONOTONIC`. Call it about every
    /// second.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn flush(&mut self, now: Nanos) -> Result<(), WriteError> {
        let due = |last: Option<Nanos>, every| last.is_none_or(|last| now >= last + every);
        if due(self.summed_at, SUM_EVERY) {
            self.summed_at = Some(now);
            unless_held(self.write_summaries())?;
        }
        if due(self.synced_at, SYNC_EVERY) {
            self.synced_at = Some(now);
            self.journal.sync()?;
            self.renew_manifest()?;
        }
        Ok(())
    }

    /// Removes the recording, as if it had never started.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn discard(self) -> Result<(), WriteError> {
        let Self {
            folder, journal, ..
        } = self;
        let of_journal = journal.name().to_owned();
        // Windows keeps the name of an open file.
        drop(journal);
        for name in [
            disk::MANIFEST,
            disk::MANIFEST_START,
            disk::RESERVE,
            &of_journal,
        ] {
            folder.remove_file(name)?;
        }
        folder.remove_samples()?;
        folder
            .remove()
            .map_err(|error| WriteError::io(folder.path(), error))
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// If the disk refuses. The manifest then has the state `failed` if it can still be
    /// written into the reserved space.
    pub fn finish(mut self, state: State) -> Result<Manifest, WriteError> {
        let released = self.folder.remove_file(disk::RESERVE);
        let closed = if self.open.is_empty() {
            Ok(())
        } else {
            self.close_segment()
        };
        let stored = released.and(closed).and(self.write_summaries());
        self.reserve_bytes = usize::MAX;
        self.manifest.state = match &stored {
            Err(error) if state == State::Complete || state == State::Interrupted => {
                State::Failed {
                    error: error.to_string(),
                }
            }
            Ok(()) | Err(_) => state,
        };
        // Waits for the program that has the file open: without this manifest the end of the
        // recording would be missing.
        let mut written = self.write_manifest(disk::MANIFEST);
        for _ in 0..LAST_TRIES {
            if !matches!(written, Err(WriteError::Held { .. })) {
                break;
            }
            written = self.write_manifest(disk::MANIFEST);
        }
        written?;
        if self.open.is_empty() {
            self.folder.remove_file(self.journal.name())?;
        }
        stored.map(|()| self.manifest)
    }

    /// Converts the open rows to a Parquet file and starts the next journal.
    fn close_segment(&mut self) -> Result<(), WriteError> {
        let name = disk::segment_name(self.number);
        let content = segment::encode(&self.open, &self.manifest.lines).map_err(|source| {
            let file = self.folder.path().join(&name);
            WriteError::Encode { file, source }
        })?;
        // Start the next journal first: when the segment is in place, the old journal
        // must not grow.
        let next = Journal::create(&self.folder, disk::journal_name(self.number + 1))?;
        if let Err(error) = disk::place(&self.folder, &name, &content) {
            self.folder.remove_file(next.name())?;
            return Err(error);
        }
        self.written_bytes += content.len() as u64;
        self.list_segment(name, content.len() as u64);
        let old = std::mem::replace(&mut self.journal, next);
        self.number += 1;
        self.open.clear();
        self.renew_manifest()?;
        self.folder.remove_file(old.name())
    }

    /// Rewrites the summaries of every hour that changed.
    fn write_summaries(&mut self) -> Result<(), WriteError> {
        let Some(counting) = &mut self.counting else {
            return Ok(());
        };
        let changed = counting.take_changed(&self.manifest.lines);
        let files = changed.map_err(|source| WriteError::Encode {
            file: self.folder.path().join("histograms"),
            source,
        })?;
        for hour in files {
            for (name, content) in [
                (disk::histograms_name(hour.hour), hour.histograms),
                (disk::largest_name(hour.hour), hour.largest),
            ] {
                disk::place(&self.folder, &name, &content)?;
                self.written_bytes += content.len() as u64;
            }
        }
        counting.stored();
        self.manifest.counts = counting.counts().to_vec();
        let lines = self.manifest.lines.len();
        self.manifest.counts.resize(lines, LineCount::default());
        Ok(())
    }

    fn list_segment(&mut self, file: String, bytes: u64) {
        let (lines, rows) = (self.manifest.lines.len(), &self.open);
        if self.counting.is_none() {
            self.manifest.counts.resize(lines, LineCount::default());
            let flags = rows.missed.iter().zip(&rows.censored);
            for (line, (&missed, &censored)) in rows.line.iter().zip(flags) {
                self.manifest.counts[usize::from(line.0)].add(missed, censored);
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

    /// Rewrites the manifest, unless that would write more than the rows. The manifest
    /// grows with every segment, and in a recording of days would otherwise take most
    /// of the bytes written. Readers find segments without it.
    fn renew_manifest(&mut self) -> Result<(), WriteError> {
        let (bytes, written) = self.last_manifest;
        if bytes > SMALL_MANIFEST && self.written_bytes < written + 4 * bytes {
            return Ok(());
        }
        unless_held(self.write_manifest(disk::MANIFEST))
    }

    fn write_manifest(&mut self, name: &str) -> Result<(), WriteError> {
        self.own_figures();
        let refused = |source| WriteError::Manifest {
            file: self.folder.path().join(name),
            source,
        };
        check_manifest(&self.manifest).map_err(refused)?;
        let json = serde_json::to_vec_pretty(&self.manifest).map_err(refused)?;
        let room = RESERVE_BYTES + 2 * json.len();
        if self.reserve_bytes < room {
            // Twice the necessary size, so that it rarely grows.
            disk::place(&self.folder, disk::RESERVE, &vec![0xA5; 2 * room])?;
            self.reserve_bytes = 2 * room;
        }
        disk::place(&self.folder, name, &json)?;
        self.written_bytes += json.len() as u64;
        self.last_manifest = (json.len() as u64, self.written_bytes);
        self.lines_written = self.manifest.lines.len();
        Ok(())
    }
}

/// Checks that every row of a batch can be stored and read back unchanged.
fn check(batch: &Batch, lines: usize, limits: Limits) -> Result<(), WriteError> {
    let rows = batch.len();
    let whole = [
        batch.seq.len(),
        batch.expiry_ns.len(),
        batch.missed.len(),
        batch.censored.len(),
    ];
    if whole.iter().any(|&length| length != rows) {
        return Err(WriteError::Ragged("seq, expiry, missed or censored"));
    }
    let steps = &batch.step_ns;
    if steps
        .iter()
        .any(|step| !step.is_empty() && step.len() != rows)
    {
        return Err(WriteError::Ragged("a stage"));
    }
    for &line in &batch.line {
        if usize::from(line.0) >= lines {
            return Err(WriteError::UnknownLine {
                line: line.0,
                lines,
            });
        }
    }
    match limits.check(batch) {
        None => Ok(()),
        Some(TooLarge {
            line, what, value, ..
        }) => Err(WriteError::TooLarge { what, value, line }),
    }
}
