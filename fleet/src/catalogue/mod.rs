//! Catalogue: the figures of the recordings of a store, as tables of Parquet files.
//!
//! A store has many small recordings. Opening all of them for every answer would take minutes. Each
//! recording is therefore read once, and its figures are kept in a few large files: one directory
//! per table, with one file per batch of recordings. A batch is valid once its file of
//! `recordings`, which is written last, exists. If a recording of a batch has changed or was
//! removed, the whole batch is removed and its other recordings are read again. Files are never
//! changed in place.

mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use laggard_files::{AtSignal, OpenDir, OutputFile};
use laggard_model::{Digest, DigestContent};

pub use rows::{TABLES, Tables};

use crate::engine::Engine;
use crate::store::Place;

/// Recording of a batch.
#[derive(Debug)]
struct CataloguedRecording {
    path: String,
    stamp: String,
    /// Machine and start time; `None` if the recording was refused.
    identity: Option<Identity>,
    /// Path of the recording that this is a copy of.
    twin: Option<String>,
}

/// Unique identity of a recording: machine, and start time to the millisecond.
type Identity = (String, String);

/// Recordings per batch: enough for a small number of files, and few enough that reading them again
/// takes seconds.
const BATCH: usize = 4_096;
/// Maximum number of batches. Beyond it, the smallest batches are read again as one.
const MAX_BATCHES: usize = 96;

/// File that marks a directory as a catalogue. Only the holder of its lock may change the
/// catalogue.
const MARK: &str = "catalogue.lock";

/// Directory of files that are needed only until they are read. The next program removes it after a
/// kill.
const SCRATCH: &str = "fetching";

/// Version of the tables' columns, in the mark. A catalogue with another version is built again.
const VERSION: &str = "2\n";

/// Catalogue of a store.
#[derive(Debug)]
pub struct Catalogue {
    dir: PathBuf,
    lock: File,
}

/// Result of an update.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Updated {
    /// Number of recordings that were read.
    pub read: usize,
    /// Number of recordings in the catalogue.
    pub kept: usize,
}

impl Catalogue {
    /// Opens the catalogue in the directory `dir`, or creates it.
    ///
    /// # Errors
    /// If the directory cannot be created or written, or if it contains something else: a
    /// catalogue writes and removes files only in its own directories.
    pub fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        if !dir.join(MARK).is_file() && fs::read_dir(dir)?.next().is_some() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "it is not empty, and no catalogue",
            ));
        }
        let (held, mark) = (OpenDir::search(dir)?, OsStr::new(MARK));
        let lock = match held.new_part(mark, 0o666) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // A link of this name leads to a file that is not part of the catalogue.
                held.open_for_writing(mark, false)?
            }
            made => made?,
        };
        for table in TABLES {
            fs::create_dir_all(dir.join(table))?;
        }
        Ok(Self {
            dir: dir.into(),
            lock,
        })
    }

    /// Returns the directory of a table.
    pub fn table(&self, table: &str) -> PathBuf {
        self.dir.join(table)
    }

    /// Updates the catalogue to the content of the store. `read` makes digests of recordings, in
    /// their order, and gets a directory for temporary files. A recording that is unavailable is
    /// left for the next update. Until this value is dropped, no other process changes the
    /// catalogue.
    ///
    /// # Errors
    /// If a file cannot be read or written, or if `read` fails.
    pub fn update(
        &self,
        places: &[Place],
        read: impl Fn(&[&Path], &Path) -> anyhow::Result<Vec<Option<Digest>>>,
    ) -> anyhow::Result<Updated> {
        self.lock
            .lock()
            .context("cannot wait for another laggard-fleet")?;
        let scratch = self.dir.join(SCRATCH);
        match fs::remove_dir_all(&scratch) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error)
                    .with_context(|| format!("cannot remove `{}`", scratch.display()));
            }
            _ => {}
        }
        let batches = self.known()?;
        let there: BTreeMap<String, &Place> = places
            .iter()
            .map(|place| (place.path.display().to_string(), place))
            .collect();
        let is_current = |recording: &CataloguedRecording| {
            let is_same = there
                .get(&recording.path)
                .is_some_and(|place| place.stamp == recording.stamp);
            // A copy counts once the original is gone.
            is_same
                && recording
                    .twin
                    .as_ref()
                    .is_none_or(|twin| there.contains_key(twin))
        };
        let mut good: BTreeMap<u64, &Vec<CataloguedRecording>> = BTreeMap::new();
        for (number, recordings) in &batches {
            if recordings.iter().all(is_current) {
                good.insert(*number, recordings);
            } else {
                self.remove(*number)?;
            }
        }
        if good.len() > MAX_BATCHES {
            let mut by_size: Vec<(usize, u64)> = good
                .iter()
                .map(|(number, files)| (files.len(), *number))
                .collect();
            by_size.sort_unstable();
            for (_, number) in by_size.into_iter().take(good.len() - MAX_BATCHES / 2) {
                self.remove(number)?;
                good.remove(&number);
            }
        }
        let kept = || good.values().flat_map(|kept| kept.iter());
        let held: BTreeSet<&String> = kept().map(|recording| &recording.path).collect();
        let mut met: BTreeMap<Identity, String> = kept()
            .filter_map(|recording| Some((recording.identity.clone()?, recording.path.clone())))
            .collect();
        let new: Vec<&Place> = there
            .iter()
            .filter(|(path, _)| !held.contains(path))
            .map(|(_, place)| *place)
            .collect();
        let mut number = batches.keys().next_back().map_or(1, |last| last + 1);
        let mut new_read = 0;
        for batch in new.chunks(BATCH) {
            let paths: Vec<&Path> = batch.iter().map(|place| place.path.as_path()).collect();
            let digests = read(&paths, &scratch)?;
            // A recording in progress changes soon, and its batch is then read again. Such
            // recordings therefore get a separate batch.
            let (mut ended, mut open) = (Tables::default(), Tables::default());
            for (place, digest) in batch.iter().zip(&digests) {
                let Some(digest) = digest else { continue };
                new_read += 1;
                let path = place.path.display().to_string();
                let tables = if has_ended(digest) {
                    &mut ended
                } else {
                    &mut open
                };
                let twin = identity(digest).and_then(|identity| match met.get(&identity) {
                    Some(twin) => Some(twin.clone()),
                    None => met.insert(identity, path.clone()),
                });
                match twin {
                    Some(twin) => tables.add_twin(&path, &place.stamp, &twin),
                    None => tables.add(&path, &place.stamp, digest),
                }
            }
            for tables in [ended, open] {
                if !tables.is_empty() {
                    self.write(number, tables)?;
                    number += 1;
                }
            }
        }
        // From here the catalogue is only read. Other processes may read it, too.
        self.lock
            .lock_shared()
            .context("cannot keep the catalogue")?;
        Ok(Updated {
            read: new_read,
            kept: held.len() + new_read,
        })
    }

    /// Writes a batch, with `recordings` as its last file.
    fn write(&self, number: u64, tables: Tables) -> anyhow::Result<()> {
        for (table, batch) in tables.finish() {
            let file = self.file(table, number);
            put(&file, &batch).with_context(|| {
                format!(
                    "cannot write `{}`; free some space, or name another directory with --catalogue",
                    file.display()
                )
            })?;
        }
        Ok(())
    }

    fn file(&self, table: &str, number: u64) -> PathBuf {
        self.table(table).join(format!("{number:08}.parquet"))
    }

    /// Removes a batch, with `recordings` as its first file.
    fn remove(&self, number: u64) -> anyhow::Result<()> {
        for table in TABLES.iter().rev() {
            let file = self.file(table, number);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error)
                        .with_context(|| format!("cannot remove `{}`", file.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the recordings of each batch. Removes the files of an incomplete batch.
    fn known(&self) -> anyhow::Result<BTreeMap<u64, Vec<CataloguedRecording>>> {
        let mut numbers = BTreeMap::new();
        for table in TABLES {
            for entry in fs::read_dir(self.table(table)).context("cannot read the catalogue")? {
                let path = entry.context("cannot read the catalogue")?.path();
                // `1.parquet`, or `1.parquet.part`.
                let number = path
                    .file_name()
                    .and_then(|name| name.to_str()?.split('.').next()?.parse::<u64>().ok());
                let ending = path.extension().and_then(|ending| ending.to_str());
                match (number, ending) {
                    (Some(number), Some("parquet")) => *numbers.entry(number).or_insert(0) += 1,
                    // An earlier process was killed while it wrote this file.
                    (Some(_), Some("part")) => fs::remove_file(&path)
                        .with_context(|| format!("cannot remove `{}`", path.display()))?,
                    _ => {}
                }
            }
        }
        let form = fs::read(self.dir.join(MARK)).context("cannot read the catalogue")?;
        if form != VERSION.as_bytes() {
            numbers.keys().try_for_each(|number| self.remove(*number))?;
            numbers.clear();
            self.lock.set_len(0).context("cannot write the catalogue")?;
            let written = (&self.lock)
                .rewind()
                .and_then(|()| (&self.lock).write_all(VERSION.as_bytes()));
            written.context("cannot write the catalogue")?;
        }
        let mut batches = BTreeMap::new();
        for (number, files) in numbers {
            let recordings = (files == TABLES.len()).then(|| self.recordings(number));
            // An unreadable batch is built again, like an incomplete one.
            match recordings {
                Some(Ok(recordings)) => drop(batches.insert(number, recordings)),
                Some(Err(_)) | None => self.remove(number)?,
            }
        }
        Ok(batches)
    }

    fn recordings(&self, number: u64) -> anyhow::Result<Vec<CataloguedRecording>> {
        let engine = Engine::new()?;
        engine.bind("recordings", &self.file("recordings", number))?;
        let rows = engine.query("SELECT path, stamp, host, started, twin FROM recordings")?;
        let (path, stamp, host) = (rows.text("path")?, rows.text("stamp")?, rows.text("host")?);
        let (started, twin) = (rows.text("started")?, rows.text("twin")?);
        let recordings = (0..rows.len()).filter_map(|row| {
            Some(CataloguedRecording {
                path: path[row].clone()?,
                stamp: stamp[row].clone()?,
                identity: host[row].clone().zip(started[row].clone()),
                twin: twin[row].clone(),
            })
        });
        Ok(recordings.collect())
    }
}

fn has_ended(digest: &Digest) -> bool {
    match &digest.content {
        DigestContent::Refused(_) => true,
        DigestContent::Read(read) => read.has_ended,
    }
}

fn identity(digest: &Digest) -> Option<Identity> {
    match &digest.content {
        DigestContent::Refused(_) => None,
        DigestContent::Read(read) => Some((read.host.clone(), read.started.clone())),
    }
}

/// Writes a table to a file that appears only when it is complete.
fn put(file: &Path, batch: &RecordBatch) -> anyhow::Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .build();
    let mut out = OutputFile::begin(file, AtSignal::Ends)?;
    let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), Some(properties))?;
    writer.write(batch)?;
    writer.close()?;
    out.keep()
}

#[cfg(test)]
mod tests {
    use laggard_model::{DIGEST_SCHEMA, DigestRefusal, RefusedBecause};
    use tempfile::TempDir;

    use super::*;

    fn refused(path: &Path) -> Digest {
        Digest {
            schema: DIGEST_SCHEMA,
            path: path.display().to_string(),
            content: DigestContent::Refused(DigestRefusal {
                because: RefusedBecause::Unreadable,
                reason: "it is damaged".into(),
            }),
        }
    }

    #[test]
    fn unavailable_recordings_are_retried_and_incomplete_files_are_removed() {
        let dir = TempDir::new().unwrap();
        let catalogue = Catalogue::open(dir.path()).unwrap();
        let left = dir.path().join(SCRATCH).join("left/by-a-kill");
        fs::create_dir_all(&left).unwrap();
        let places = ["one", "two"].map(|name| Place {
            path: name.into(),
            stamp: "1".into(),
        });
        let update = |is_there: bool| {
            let digest = |path: &&Path| (is_there || path.ends_with("one")).then(|| refused(path));
            let updated = catalogue.update(&places, |paths, scratch| {
                assert!(!scratch.exists());
                Ok(paths.iter().map(digest).collect())
            });
            let Updated { read, kept } = updated.unwrap();
            (read, kept)
        };

        let updates = [update(false), update(false), update(true), update(true)];

        assert_eq!(updates, [(1, 1), (0, 1), (1, 2), (0, 2)]);
        assert!(!left.exists());
    }
}
