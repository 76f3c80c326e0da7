//! The folder of recordings: named by time, and never larger than it may be.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use laggard_record::Destination;

use super::metrics::StoreSeries;
use crate::pipe;

/// Between two looks at what the store takes.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// What begins and ends the names of our recordings: nothing else is ever removed.
const BEGINS: &str = "serve-";
const ENDS: &str = ".laggard";

/// A folder of recordings that this process alone writes.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    /// Bytes.
    keep: u64,
    series: StoreSeries,
    /// The recording that is being made: it is not removed.
    current: Arc<Mutex<Option<String>>>,
    _lock: File,
}

impl Store {
    /// Opens the folder, or makes it.
    ///
    /// # Errors
    /// When it cannot be written, or another process writes it.
    pub(super) fn open(dir: &Path, keep: u64, series: StoreSeries) -> anyhow::Result<Self> {
        let shown = dir.display();
        fs::create_dir_all(dir).with_context(|| format!("make the store `{shown}`"))?;
        let lock = File::create(dir.join(".lock"))
            .with_context(|| format!("write in the store `{shown}`"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                bail!("another `laggard serve` writes the store `{shown}`; give each its own")
            }
            Err(fs::TryLockError::Error(err)) => {
                return Err(err).with_context(|| format!("lock the store `{shown}`"));
            }
        }
        Ok(Self {
            dir: dir.to_owned(),
            keep,
            series,
            current: Arc::default(),
            _lock: lock,
        })
    }

    /// Where the recording that begins now is made.
    pub(super) fn next(&self) -> Destination {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H-%M-%SZ");
        let mut name = format!("{BEGINS}{now}{ENDS}");
        // A clock that was set back comes to the same second again.
        for number in 2.. {
            if !self.dir.join(&name).exists() {
                break;
            }
            name = format!("{BEGINS}{now}-{number}{ENDS}");
        }
        *self.current() = Some(name.clone());
        self.dir.join(name).into()
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the store kept small from now on, by a thread of its own.
    pub(super) fn watch(&self) -> io::Result<()> {
        let keeper = StoreKeeper {
            dir: self.dir.clone(),
            keep: self.keep,
            series: self.series.clone(),
            current: self.current.clone(),
        };
        super::thread("laggard/store", move || {
            let mut told = None;
            loop {
                let result = keeper.tidy().map_err(|err| format!("{err:#}"));
                // Once, as long as it is the same.
                if let Err(why) = &result
                    && told.as_ref() != Some(why)
                {
                    pipe::say(why);
                }
                told = result.err();
                std::thread::sleep(LOOK_EVERY);
            }
        })
    }
}

/// Removes what is too old.
#[derive(Debug)]
struct StoreKeeper {
    dir: PathBuf,
    keep: u64,
    series: StoreSeries,
    current: Arc<Mutex<Option<String>>>,
}

impl StoreKeeper {
    /// Removes the oldest recordings until the rest are no larger than they may be.
    fn tidy(&self) -> anyhow::Result<()> {
        let shown = self.dir.display();
        let mut all = recordings(&self.dir).with_context(|| format!("read the store `{shown}`"))?;
        all.sort();
        let mut sizes = Vec::new();
        for name in all {
            let path = self.dir.join(&name);
            sizes.push((size(&path).unwrap_or_default(), name));
        }
        let mut bytes: u64 = sizes.iter().map(|(size, _)| size).sum();
        let current = self
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (size, name) in sizes {
            if bytes <= self.keep {
                break;
            }
            if current.as_ref() == Some(&name) {
                continue;
            }
            let path = self.dir.join(&name);
            fs::remove_dir_all(&path)
                .with_context(|| format!("remove the old recording `{}`", path.display()))?;
            bytes -= size;
            self.series.removed.inc();
        }
        self.series
            .bytes
            .set(i64::try_from(bytes).unwrap_or(i64::MAX));
        if bytes > self.keep {
            bail!(
                "the recording that is being made is larger than the store `{shown}` may be; \
                 give --keep more, or --every less"
            );
        }
        Ok(())
    }
}

/// The names of our recordings in `dir`.
fn recordings(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let is_ours = name.starts_with(BEGINS) && name.ends_with(ENDS);
        // Not where a link leads.
        if is_ours && entry.file_type()?.is_dir() {
            names.push(name);
        }
    }
    Ok(names)
}

/// What a folder takes on disk, bytes, with all that is in it.
fn size(path: &Path) -> io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    let mut bytes = metadata.blocks() * 512;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            bytes += size(&entry?.path())?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a recording, of 64 KiB.
    fn recording(dir: &Path, name: &str) {
        let path = dir.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("data"), vec![7; 64 << 10]).unwrap();
    }

    fn keeper(dir: &Path, keep: u64, current: Option<&str>) -> StoreKeeper {
        StoreKeeper {
            dir: dir.to_owned(),
            keep,
            series: StoreSeries::default(),
            current: Arc::new(Mutex::new(current.map(str::to_owned))),
        }
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_go_first_and_what_is_not_ours_stays() {
        let dir = tempfile::TempDir::new().unwrap();
        for name in [
            "serve-2026-01-01T00-00-00Z.laggard",
            "serve-2026-01-01T01-00-00Z.laggard",
            "serve-2026-01-01T02-00-00Z.laggard",
            "mine.laggard",
        ] {
            recording(dir.path(), name);
        }
        std::os::unix::fs::symlink("mine.laggard", dir.path().join("serve-0.laggard")).unwrap();
        let keeper = keeper(dir.path(), 160 << 10, None);

        keeper.tidy().unwrap();

        assert_eq!(
            names(dir.path()),
            [
                "mine.laggard",
                "serve-0.laggard",
                "serve-2026-01-01T01-00-00Z.laggard",
                "serve-2026-01-01T02-00-00Z.laggard"
            ]
        );
        assert_eq!(keeper.series.removed.get(), 1);
    }

    #[test]
    fn what_is_being_made_is_never_removed_though_its_name_is_the_oldest() {
        let dir = tempfile::TempDir::new().unwrap();
        let current = "serve-1999-01-01T00-00-00Z.laggard";
        recording(dir.path(), current);
        recording(dir.path(), "serve-2026-01-01T01-00-00Z.laggard");

        let refused = keeper(dir.path(), 1, Some(current)).tidy().unwrap_err();

        assert_eq!(names(dir.path()), [current]);
        assert!(refused.to_string().contains("--keep"), "{refused}");
    }

    #[test]
    fn a_store_has_one_writer_and_no_name_twice() {
        let dir = tempfile::TempDir::new().unwrap();
        let open = || Store::open(dir.path(), 1 << 20, StoreSeries::default());
        let store = open().unwrap();

        let refused = open().unwrap_err();

        assert!(refused.to_string().contains("another"), "{refused}");
        let first = store.next().path().to_owned();
        fs::create_dir(&first).unwrap();
        assert_ne!(store.next().path(), first);
    }
}
