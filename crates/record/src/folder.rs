//! Directory of a recording, or of several, during writing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use laggard_files::{Access, EntryKind, OpenDir};

use crate::WriteError;

/// Directory that contains only the closed segments, so that other programs can read it
/// as one table.
pub(crate) const SAMPLES: &str = "samples";

/// Directory that this program created, or used while it was empty, and holds open.
///
/// Files are written into this directory even if it or its parents are renamed or
/// replaced.
#[derive(Clone, Debug)]
pub struct Folder(Arc<OpenFolder>);

#[derive(Debug)]
struct OpenFolder {
    /// Original path, for messages.
    path: PathBuf,
    dir: OpenDir,
    /// Parent directory, and the name in it.
    around: Option<(OpenDir, OsString)>,
    is_new: bool,
    samples: OnceLock<OpenDir>,
}

impl Folder {
    /// Creates the directory `path`, which must be new.
    ///
    /// # Errors
    /// If the system refuses, or the name exists.
    pub fn make(path: &Path, access: Access) -> io::Result<Self> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::from(io::ErrorKind::AlreadyExists))?;
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let around = OpenDir::search(parent.unwrap_or(Path::new(".")))?;
        Self::make_in(&around, name, path, access)
    }

    /// Creates the directory `name`, called `path`, in `around`.
    pub(crate) fn make_in(
        around: &OpenDir,
        name: &OsStr,
        path: &Path,
        access: Access,
    ) -> io::Result<Self> {
        around.make(name, access)?;
        let dir = around.enter(name)?;
        if !dir.is_own()? || !dir.names()?.is_empty() {
            return Err(io::Error::other(
                "another program replaced it by another directory; choose a directory that only you can write to",
            ));
        }
        Ok(Self::held(
            dir,
            Some((around.clone(), name.to_owned())),
            path,
            true,
        ))
    }

    /// Uses an existing directory.
    pub(crate) fn taken(dir: OpenDir, path: &Path) -> Self {
        Self::held(dir, None, path, false)
    }

    fn held(dir: OpenDir, around: Option<(OpenDir, OsString)>, path: &Path, is_new: bool) -> Self {
        Self(Arc::new(OpenFolder {
            path: path.to_owned(),
            dir,
            around,
            is_new,
            samples: OnceLock::new(),
        }))
    }

    /// Returns the path at the time of opening. It may have another name now.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn dir(&self) -> &OpenDir {
        &self.0.dir
    }

    /// Returns whether it was created by this program.
    pub(crate) fn is_new(&self) -> bool {
        self.0.is_new
    }

    /// Creates the directory of the closed segments.
    pub(crate) fn make_samples(&self) -> Result<(), WriteError> {
        let name = OsStr::new(SAMPLES);
        let made = self.dir().access().and_then(|access| {
            self.dir().make(name, access)?;
            self.dir().enter(name)
        });
        let samples = made.map_err(|error| self.error(SAMPLES, error))?;
        self.0.samples.get_or_init(|| samples);
        Ok(())
    }

    /// Creates a new file. An existing file or link of this name is neither followed
    /// nor written to.
    pub(crate) fn new_file(&self, name: &str) -> io::Result<File> {
        let (dir, name) = self.part(name);
        dir.new_file(name)
    }

    /// Renames file `from` to `to` and replaces an existing file.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (self.part(from), self.part(to));
        from_dir.rename(from, to_dir, to)
    }

    /// Makes the names next to `name` survive a power cut.
    pub(crate) fn sync(&self, name: &str) -> io::Result<()> {
        self.part(name).0.sync()
    }

    pub(crate) fn remove_file(&self, name: &str) -> Result<(), WriteError> {
        let (dir, part) = self.part(name);
        dir.remove_file(part)
            .map_err(|error| self.error(name, error))
    }

    /// Removes the empty directory of the closed segments.
    pub(crate) fn remove_samples(&self) -> Result<(), WriteError> {
        let removed = self.dir().remove_folder(OsStr::new(SAMPLES));
        removed.map_err(|error| self.error(SAMPLES, error))
    }

    /// Removes the directory itself if it is empty, this program created it, and it was not
    /// renamed.
    ///
    /// # Errors
    /// If the system refuses, or it is not empty.
    pub fn remove(&self) -> io::Result<()> {
        match &self.0.around {
            Some((around, name)) if around.has(name, self.dir()) => around.remove_folder(name),
            Some(_) | None => Ok(()),
        }
    }

    /// Removes a directory that this program created, with its content. If another
    /// directory has its name now, that one is unchanged.
    ///
    /// # Errors
    /// If the system refuses, or another program adds a file during the removal.
    pub fn remove_with_all(&self) -> io::Result<()> {
        if !self.is_new() {
            return Ok(());
        }
        empty(self.dir())?;
        self.remove()
    }

    /// Removes the written files, and the directory itself if this program created it.
    /// From a directory that existed before, removes only names that satisfy `is_ours`:
    /// another user may have added files.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn undo(&self, is_ours: impl Fn(&str) -> bool) -> io::Result<()> {
        if self.is_new() {
            return self.remove_with_all();
        }
        let dir = self.dir();
        for name in dir.names()? {
            if is_ours(&name.to_string_lossy()) {
                remove(dir, &name)?;
            }
        }
        Ok(())
    }

    /// Returns the error with the file name.
    pub(crate) fn error(&self, name: &str, source: io::Error) -> WriteError {
        WriteError::io(&self.path().join(name), source)
    }

    /// Returns the open directory that contains a file of a recording, and its name
    /// there.
    fn part<'a>(&'a self, name: &'a str) -> (&'a OpenDir, &'a OsStr) {
        let in_samples = name
            .strip_prefix(SAMPLES)
            .and_then(|rest| rest.strip_prefix('/'));
        match (in_samples, self.0.samples.get()) {
            (Some(name), Some(samples)) => (samples, OsStr::new(name)),
            _ => (self.dir(), OsStr::new(name)),
        }
    }
}

fn empty(dir: &OpenDir) -> io::Result<()> {
    let names = dir.names()?;
    names.iter().try_for_each(|name| remove(dir, name))
}

/// Removes a file, or a directory with its content.
fn remove(dir: &OpenDir, name: &OsStr) -> io::Result<()> {
    match dir.kind(name)? {
        EntryKind::Folder => {
            empty(&dir.enter(name)?)?;
            dir.remove_folder(name)
        }
        EntryKind::File | EntryKind::Link | EntryKind::Other => dir.remove_file(name),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{Destination, disk};

    #[test]
    fn undo_in_an_existing_directory_removes_only_written_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("given");
        fs::create_dir(&path).unwrap();
        let folder = Destination::from(&path).take(Access::Private).unwrap();
        folder.make_samples().unwrap();
        for name in [
            "samples/000001.parquet",
            "open-000001.journal",
            "histograms-000000.parquet",
            "largest-000000.parquet",
            "episodes-000001.jsonl.zst",
            "episodes.json",
            "manifest.json",
        ] {
            disk::place_soon(&folder, name, b"written").unwrap();
        }
        folder.new_file(".manifest.json.part").unwrap();
        fs::write(path.join("notes"), "of somebody else").unwrap();

        folder.undo(disk::is_written).unwrap();

        let left = fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        assert_eq!(left.collect::<Vec<_>>(), [path.join("notes")]);
    }

    #[test]
    fn undo_removes_a_created_directory_with_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made");
        let folder = Folder::make(&path, Access::Private).unwrap();
        disk::place_soon(&folder, "manifest.json", b"written").unwrap();

        folder.undo(disk::is_written).unwrap();

        assert!(!path.exists());
    }
}
