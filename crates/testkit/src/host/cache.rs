//! Cache of fetched files, kept outside the source tree between runs.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::architecture::Architecture;
use super::error::FetchError;

/// Directory of all fetched files. While it is open, no other process fetches.
#[derive(Debug)]
pub(super) struct Cache {
    root: PathBuf,
    _lock: File,
}

impl Cache {
    /// Opens `$XDG_CACHE_HOME/laggard/kernels`, or the same under `~/.cache`. Waits while another
    /// process fetches.
    pub(super) fn open() -> Result<Self, FetchError> {
        let base = env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| env::home_dir().map(|home| home.join(".cache")))
            .unwrap_or_else(env::temp_dir);
        Self::new(base.join("laggard/kernels"))
    }

    fn new(root: PathBuf) -> Result<Self, FetchError> {
        fs::create_dir_all(&root).map_err(FetchError::io(&root))?;
        let path = root.join("lock");
        let lock = File::create(&path).map_err(FetchError::io(&path))?;
        lock.lock().map_err(FetchError::io(path))?;
        Ok(Self { root, _lock: lock })
    }

    /// Returns the directory of apt's state for an architecture.
    pub(super) fn apt(&self, architecture: Architecture) -> PathBuf {
        match architecture {
            Architecture::Amd64 => self.root.join("apt"),
            Architecture::Arm64 => self.root.join("apt-arm64"),
        }
    }

    /// Returns the directory with this name, filled by `fill` if it does not exist. It appears
    /// only after `fill` has succeeded.
    pub(super) fn entry(
        &self,
        name: &str,
        fill: impl FnOnce(&Path) -> Result<(), FetchError>,
    ) -> Result<PathBuf, FetchError> {
        let entry = self.root.join(name);
        if entry.is_dir() {
            return Ok(entry);
        }
        let partial = self.root.join(format!("{name}.partial"));
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(FetchError::io(&partial))?;
        }
        fs::create_dir(&partial).map_err(FetchError::io(&partial))?;
        fill(&partial)?;
        fs::rename(&partial, &entry).map_err(FetchError::io(&entry))?;
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_entry_is_tried_again() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::new(scratch.path().into()).unwrap();

        let failed = cache.entry("kernel", |into| {
            fs::write(into.join("half"), "x").unwrap();
            Err(FetchError::NoMirror)
        });
        let entry = cache
            .entry("kernel", |into| {
                fs::write(into.join("whole"), "x").unwrap();
                Ok(())
            })
            .unwrap();

        assert!(failed.is_err());
        assert!(entry.join("whole").exists() && !entry.join("half").exists());
    }

    #[test]
    fn entry_is_filled_only_once() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = Cache::new(scratch.path().into()).unwrap();
        cache.entry("kernel", |_| Ok(())).unwrap();

        let again = cache.entry("kernel", |_| panic!("was there already"));

        assert!(again.is_ok());
    }
}
