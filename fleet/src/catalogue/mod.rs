//! The catalogue: what the recordings of a store tell, as tables of Parquet files.
//!
//! A store has many small recordings, and to open each for every answer would
//! take minutes. So each is read once, and its figures are kept in a few large
//! files: a folder for each table, and in it a file for each batch of recordings.
//! A batch counts when its file of `recordings`, which is written last, is there.
//! Where a recording of a batch has changed or is gone, the whole batch is removed
//! and what is left of it read again: nothing is ever changed in place.

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

/// A recording of a batch.
#[derive(Debug)]
struct Known {
    path: String,
    stamp: String,
    /// Its machine and when it began; `None`: it was refused.
    identity: Option<Identity>,
    /// The one that it is a copy of.
    twin: Option<String>,
}

/// What no two recordings share: the machine and when it began, to the millisecond.
type Identity = (String, String);

/// Recordings of one batch: so many that there are few files, and so few that to
/// read them again takes seconds.
const BATCH: usize = 4_096;
/// More batches than that are made fewer: the smallest are read again as one.
const MOST_BATCHES: usize = 96;

/// A folder with this file is a catalogue. Who holds its lock may change that.
const MARK: &str = "catalogue.lock";

/// What is here only until it is read. One who was killed leaves it to the next.
const SCRATCH: &str = "fetching";

/// What it says of the tables' columns. Those of a catalogue that says otherwise are
/// made anew.
const FORM: &str = "2\n";

/// The catalogue of a store.
#[derive(Debug)]
pub struct Catalogue {
    dir: PathBuf,
    lock: File,
}

/// What an update did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Updated {
    /// Recordings that were read.
    pub read: usize,
    /// Recordings that are in the catalogue now.
    pub kept: usize,
}

impl Catalogue {
    /// Opens the catalogue in the folder `dir`, or begins one there.
    ///
    /// # Errors
    /// When the folder cannot be made or written, or holds something else: a
    /// catalogue removes and writes files in folders of its own alone.
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
                // A link of this name leads to a file that is not the catalogue's.
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

    /// Where a table's files are.
    pub fn table(&self, table: &str) -> PathBuf {
        self.dir.join(table)
    }

    /// Brings the catalogue to what the store holds. `read` makes digests of
    /// recordings, in their order, and has a folder for what is needed until then; one
    /// that it cannot have now is left for the next time. Until this value is dropped
    /// nobody else changes the catalogue.
    ///
    /// # Errors
    /// When a file cannot be read or written, or `read` fails.
    pub fn update(
        &self,
        places: &[Place],
        read: impl Fn(&[&Path], &Path) -> anyhow::Result<Vec<Option<Digest>>>,
    ) -> anyhow::Result<Updated> {
        self.lock.lock().context("wait for another laggard-fleet")?;
        let scratch = self.dir.join(SCRATCH);
        match fs::remove_dir_all(&scratch) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove `{}`", scratch.display()));
            }
            _ => {}
        }
        let known = self.known()?;
        let there: BTreeMap<String, &Place> = places
            .iter()
            .map(|place| (place.path.display().to_string(), place))
            .collect();
        let is_current = |one: &Known| {
            let is_same = there
                .get(&one.path)
                .is_some_and(|place| place.stamp == one.stamp);
            // Once the other is gone, it counts.
            is_same
                && one
                    .twin
                    .as_ref()
                    .is_none_or(|twin| there.contains_key(twin))
        };
        let mut good: BTreeMap<u64, &Vec<Known>> = BTreeMap::new();
        for (number, recordings) in &known {
            match recordings.iter().all(is_current) {
                true => drop(good.insert(*number, recordings)),
                false => self.remove(*number)?,
            }
        }
        if good.len() > MOST_BATCHES {
            let mut by_size: Vec<(usize, u64)> = good
                .iter()
                .map(|(number, all)| (all.len(), *number))
                .collect();
            by_size.sort_unstable();
            for (_, number) in by_size.into_iter().take(good.len() - MOST_BATCHES / 2) {
                self.remove(number)?;
                good.remove(&number);
            }
        }
        let all = || good.values().flat_map(|all| all.iter());
        let held: BTreeSet<&String> = all().map(|one| &one.path).collect();
        let mut met: BTreeMap<Identity, String> = all()
            .filter_map(|one| Some((one.identity.clone()?, one.path.clone())))
            .collect();
        let new: Vec<&Place> = there
            .iter()
            .filter(|(path, _)| !held.contains(path))
            .map(|(_, place)| *place)
            .collect();
        let mut number = known.keys().next_back().map_or(1, |last| last + 1);
        let mut new_read = 0;
        for batch in new.chunks(BATCH) {
            let paths: Vec<&Path> = batch.iter().map(|place| place.path.as_path()).collect();
            let digests = read(&paths, &scratch)?;
            // Those that have not ended change soon, and would take the rest of
            // their batch with them.
            let (mut ended, mut open) = (Tables::default(), Tables::default());
            for (place, digest) in batch.iter().zip(&digests) {
                let Some(digest) = digest else { continue };
                new_read += 1;
                let path = place.path.display().to_string();
                let tables = match has_ended(digest) {
                    true => &mut ended,
                    false => &mut open,
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
        // From here on it is read only; others may read it too.
        self.lock.lock_shared().context("keep the catalogue")?;
        Ok(Updated {
            read: new_read,
            kept: held.len() + new_read,
        })
    }

    /// Writes a batch: `recordings` last.
    fn write(&self, number: u64, tables: Tables) -> anyhow::Result<()> {
        for (table, batch) in tables.finish() {
            let file = self.file(table, number);
            put(&file, &batch).with_context(|| {
                format!(
                    "write `{}`; free some space, or name another folder with --catalogue",
                    file.display()
                )
            })?;
        }
        Ok(())
    }

    fn file(&self, table: &str, number: u64) -> PathBuf {
        self.table(table).join(format!("{number:08}.parquet"))
    }

    /// Removes a batch: `recordings` first.
    fn remove(&self, number: u64) -> anyhow::Result<()> {
        for table in TABLES.iter().rev() {
            let file = self.file(table, number);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("remove `{}`", file.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The recordings of each batch. What was left of a
    /// batch that was not finished is removed.
    fn known(&self) -> anyhow::Result<BTreeMap<u64, Vec<Known>>> {
        let mut numbers = BTreeMap::new();
        for table in TABLES {
            for entry in fs::read_dir(self.table(table)).context("read the catalogue")? {
                let path = entry.context("read the catalogue")?.path();
                // `1.parquet`, or `1.parquet.part`.
                let number = path
                    .file_name()
                    .and_then(|name| name.to_str()?.split('.').next()?.parse::<u64>().ok());
                let ending = path.extension().and_then(|ending| ending.to_str());
                match (number, ending) {
                    (Some(number), Some("parquet")) => *numbers.entry(number).or_insert(0) += 1,
                    // Being written when it was killed.
                    (Some(_), Some("part")) => fs::remove_file(&path)
                        .with_context(|| format!("remove `{}`", path.display()))?,
                    _ => {}
                }
            }
        }
        let form = fs::read(self.dir.join(MARK)).context("read the catalogue")?;
        if form != FORM.as_bytes() {
            numbers.keys().try_for_each(|number| self.remove(*number))?;
            numbers.clear();
            self.lock.set_len(0).context("write the catalogue")?;
            let written = (&self.lock)
                .rewind()
                .and_then(|()| (&self.lock).write_all(FORM.as_bytes()));
            written.context("write the catalogue")?;
        }
        let mut known = BTreeMap::new();
        for (number, files) in numbers {
            let recordings = (files == TABLES.len()).then(|| self.recordings(number));
            // One that cannot be read is made anew, like one that is not whole.
            match recordings {
                Some(Ok(recordings)) => drop(known.insert(number, recordings)),
                Some(Err(_)) | None => self.remove(number)?,
            }
        }
        Ok(known)
    }

    fn recordings(&self, number: u64) -> anyhow::Result<Vec<Known>> {
        let engine = Engine::new()?;
        engine.bind("recordings", &self.file("recordings", number))?;
        let rows = engine.query("SELECT path, stamp, host, started, twin FROM recordings")?;
        let (path, stamp, host) = (rows.text("path")?, rows.text("stamp")?, rows.text("host")?);
        let (started, twin) = (rows.text("started")?, rows.text("twin")?);
        let known = (0..rows.len()).filter_map(|row| {
            Some(Known {
                path: path[row].clone()?,
                stamp: stamp[row].clone()?,
                identity: host[row].clone().zip(started[row].clone()),
                twin: twin[row].clone(),
            })
        });
        Ok(known.collect())
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

/// Writes a table, which appears when it is whole.
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
    fn what_could_not_be_had_is_asked_for_again_and_what_was_left_half_made_is_removed() {
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

        let all = [update(false), update(false), update(true), update(true)];

        assert_eq!(all, [(1, 1), (0, 1), (1, 2), (0, 2)]);
        assert!(!left.exists());
    }
}
