//! Writing a recording.

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

/// Rows of a journal frame at most.
const FRAME_ROWS: usize = 8_192;
/// How often the journal is synced and the manifest rewritten.
const SYNC_EVERY: Nanos = Nanos::from_secs(5);
/// How often summaries are rewritten: less than 10 s by so much that a call of
/// `flush` every second keeps the promise of 10 s.
const SUM_EVERY: Nanos = Nanos::from_secs(8);
/// The smallest reserve: room for the last manifest and the last segment.
const RESERVE_BYTES: usize = 1 << 20;
/// A manifest up to this size is rewritten whenever it is due.
const SMALL_MANIFEST: u64 = 64 << 10;
/// How often the last manifest is tried again, a second each, where it is held open.
const LAST_TRIES: usize = 10;

/// Writes a recording, so that a kill at any instant leaves it readable.
///
/// Rows go to a journal first. When it has a segment's worth, they become a
/// Parquet file of the same number, and the next journal begins; a journal
/// whose segment is in place no longer counts. After an error the recorder can
/// still be finished, and should be.
#[derive(Debug)]
pub struct Recorder {
    folder: Folder,
    manifest: Manifest,
    /// Number of the open segment.
    number: u32,
    /// The open segment's rows; the same as in the journal.
    open: Batch,
    journal: Journal,
    reserve_bytes: usize,
    written_bytes: u64,
    /// Activations that were given, or were to be given, and are not stored.
    not_written: u64,
    /// Of these, by line, those that are in no count.
    lost: Vec<u64>,
    /// What the probe says became of each line's plan.
    accounts: Vec<Account>,
    /// The longest time that something waited to be written.
    written_within: Option<Nanos>,
    synced_at: Option<Nanos>,
    /// Size of the last manifest, and how much had been written by then.
    last_manifest: (u64, u64),
    /// How many lines the one on the disk has.
    lines_written: usize,
    /// Present when only the tail is kept.
    counting: Option<Counting>,
    summed_at: Option<Nanos>,
}

impl Recorder {
    /// Whether a recording can be begun at `place`, without leaving anything.
    ///
    /// # Errors
    /// As [`Recorder::create`].
    pub fn check(place: &Destination) -> Result<(), CreateError> {
        let folder = place.take(Access::Private)?;
        let trial = disk::place_soon(&folder, disk::RESERVE, b"trial");
        let gone = trial.and_then(|()| folder.remove_file(disk::RESERVE));
        folder
            .remove()
            .map_err(|error| WriteError::io(place.path(), error))?;
        Ok(gone?)
    }

    /// Begins a recording at `place`, which must not exist or be empty. Nobody
    /// else may read it.
    ///
    /// # Errors
    /// When the folder is in use, its parent is missing, or it cannot be written.
    pub fn create(place: impl Into<Destination>, manifest: Manifest) -> Result<Self, CreateError> {
        Self::create_for(place, manifest, Access::Private)
    }

    /// The same, with `access` to it. An empty folder that is there already keeps
    /// the access that it has, and gives it to what comes into it.
    ///
    /// # Errors
    /// As [`Recorder::create`].
    pub fn create_for(
        place: impl Into<Destination>,
        manifest: Manifest,
        access: Access,
    ) -> Result<Self, CreateError> {
        let place = place.into();
        let folder = place.take(access)?;
        let recorder = Self::begin(folder.clone(), manifest).inspect_err(|_| {
            // What was begun would be in the way of another try. Best effort:
            // the error that is returned says more than a second one.
            let _ = folder.undo(disk::is_written);
        })?;
        place.begun(folder);
        Ok(recorder)
    }

    fn begin(folder: Folder, manifest: Manifest) -> Result<Self, CreateError> {
        // The manifest's first writing syncs the folder that it is in.
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
    /// When a row cannot belong to this recording (none is added then), or
    /// when the disk refuses. Rows that are not stored are counted as lost.
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
        // After a kill, rows of a line that is not in it are nobody's.
        if self.lines_written < self.manifest.lines.len()
            && let Err(error) = self.write_manifest(disk::MANIFEST)
        {
            self.count_lost(batch, 0..batch.len());
            return Err(error);
        }
        let mut stored = 0;
        while stored < batch.len() {
            let rows = stored..batch.len().min(stored + FRAME_ROWS);
            match self.journal.append(rows.clone().map(|row| batch.get(row))) {
                Ok(bytes) => self.written_bytes += bytes,
                Err(error) => {
                    self.count_lost(batch, stored..batch.len());
                    return Err(error);
                }
            }
            stored = rows.end;
            rows.for_each(|row| self.open.push(&batch.get(row)));
            if self.open.len() >= SEGMENT_ROWS
                && let Err(error) = self.close_segment()
            {
                self.count_lost(batch, stored..batch.len());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Changes the manifest: losses, caveats, cost, clock, load. It reaches the
    /// disk with the next flush; a line, before its first row. Lines can be added, not
    /// changed. The recorder
    /// itself keeps the state, counts, segments, `cost.written_bytes` and
    /// `losses.not_written`; changes of these have no effect.
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

    /// Takes in that something waited so long until it was written.
    pub fn waited(&mut self, time: Nanos) {
        let time = match &self.counting {
            None => time,
            // What is summed up is in no journal, and is written now and then.
            Some(_) => time + SUM_EVERY,
        };
        self.written_within = self.written_within.max(Some(time));
        self.own_figures();
    }

    /// Takes in what has become of each line's plan besides the activations that
    /// were given: what was lost so far and, at the end, how much was planned.
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
            count.lost = account.lost + not_written;
        }
    }

    /// Counts activations that were to be added and were not, for want of
    /// time or memory: by line, as many as there are.
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

    /// Counts rows of a batch that could not be stored. Of a tail, the histograms
    /// have them all the same.
    fn count_lost(&mut self, batch: &Batch, rows: std::ops::Range<usize>) {
        for row in rows {
            match &self.counting {
                None => self.lose_of_line(batch.line[row].0.into(), 1),
                Some(_) => self.not_written += 1,
            }
        }
        self.own_figures();
    }

    /// The folder that is written to.
    pub const fn folder(&self) -> &Folder {
        &self.folder
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

    /// Takes the recording away again: it never began.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn discard(self) -> Result<(), WriteError> {
        let Self {
            folder, journal, ..
        } = self;
        let of_journal = journal.name().to_owned();
        // Of a file that is open Windows keeps the name.
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
    /// When the disk refuses. The manifest then says `failed` if it can still
    /// be written; the space set aside at the start is there for that.
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
        // Each waits for who has it open; without it the recording has no end.
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

    /// Turns the open rows into a Parquet file and begins the next journal.
    fn close_segment(&mut self) -> Result<(), WriteError> {
        let name = disk::segment_name(self.number);
        let content = segment::encode(&self.open, &self.manifest.lines).map_err(|source| {
            let file = self.folder.path().join(&name);
            WriteError::Encode { file, source }
        })?;
        // The next journal first: once the segment is in place, nothing may
        // be appended to the old one.
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

    /// Rewrites the manifest, unless that would be more work than the rows: it
    /// grows with every segment, and in a recording of days would otherwise
    /// take most of the bytes written. Readers find segments without it.
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
            // Twice what is needed, so that it seldom grows.
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

/// Whether every row of a batch can be stored and read back the same.
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
