//! The folder of a recording, or of several, while it is written to.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use laggard_files::{Access, EntryKind, OpenDir};

use crate::WriteError;

/// The folder of the closed segments and nothing else, so that other programs
/// can read it as one table.
pub(crate) const SAMPLES: &str = "samples";

/// A folder that this program made, or took while it was empty, and holds open.
///
/// What is written to it comes into this folder and no other, whoever renames it
/// or what is around it, and whatever is put there instead.
#[derive(Clone, Debug)]
pub struct Folder(Arc<OpenFolder>);

#[derive(Debug)]
struct OpenFolder {
    /// What it was called, for messages.
    path: PathBuf,
    dir: OpenDir,
    /// What it is in, and its name there.
    around: Option<(OpenDir, OsString)>,
    is_new: bool,
    samples: OnceLock<OpenDir>,
}

impl Folder {
    /// Makes the folder `path`, which must be new.
    ///
    /// # Errors
    /// When the system refuses, or the name is taken.
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

    /// Makes the folder `name`, called `path`, in `around`.
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
                "somebody else put another folder in its place; choose a folder that is yours",
            ));
        }
        Ok(Self::held(
            dir,
            Some((around.clone(), name.to_owned())),
            path,
            true,
        ))
    }

    /// Takes a folder that is there.
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

    /// What it was called when it was opened. It may have another name now.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn dir(&self) -> &OpenDir {
        &self.0.dir
    }

    /// Whether it was made, not taken.
    pub(crate) fn is_new(&self) -> bool {
        self.0.is_new
    }

    /// Makes the folder of the closed segments.
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

    /// Makes a file that is new. Whatever has this name already, a link too, is
    /// neither followed nor written to.
    pub(crate) fn new_file(&self, name: &str) -> io::Result<File> {
        let (dir, name) = self.part(name);
        dir.new_file(name)
    }

    /// Gives the file `from` the name `to`; what had it is replaced.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (self.part(from), self.part(to));
        from_dir.rename(from, to_dir, to)
    }

    /// Makes what became of the names beside `name` survive a power cut.
    pub(crate) fn sync(&self, name: &str) -> io::Result<()> {
        self.part(name).0.sync()
    }

    pub(crate) fn remove_file(&self, name: &str) -> Result<(), WriteError> {
        let (dir, part) = self.part(name);
        dir.remove_file(part)
            .map_err(|error| self.error(name, error))
    }

    /// Removes the empty folder of the closed segments.
    pub(crate) fn remove_samples(&self) -> Result<(), WriteError> {
        let removed = self.dir().remove_folder(OsStr::new(SAMPLES));
        removed.map_err(|error| self.error(SAMPLES, error))
    }

    /// Removes the folder itself, where it was made and still has its name and
    /// nothing is in it.
    ///
    /// # Errors
    /// When the system refuses, or something is in it.
    pub fn remove(&self) -> io::Result<()> {
        match &self.0.around {
            Some((around, name)) if around.has(name, self.dir()) => around.remove_folder(name),
            Some(_) | None => Ok(()),
        }
    }

    /// Removes a folder that was made, with all that is in it. Where a folder of
    /// this name is another by now, that one is left alone.
    ///
    /// # Errors
    /// When the system refuses, or something comes into it meanwhile.
    pub fn remove_with_all(&self) -> io::Result<()> {
        if !self.is_new() {
            return Ok(());
        }
        empty(self.dir())?;
        self.remove()
    }

    /// Removes what was written to it, and the folder itself where it was made. In
    /// one that was there before, only what `is_ours` by its name goes: somebody else
    /// may have put something there meanwhile.
    ///
    /// # Errors
    /// When the system refuses.
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

    /// The error with the file that it is about.
    pub(crate) fn error(&self, name: &str, source: io::Error) -> WriteError {
        WriteError::io(&self.path().join(name), source)
    }

    /// The open folder that a file of a recording is in, and its name there.
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

/// Removes a file, or a folder with all that is in it.
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
    fn of_a_folder_that_was_there_all_goes_that_was_written_and_nothing_else() {
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

        let left = fs::read_dir(&path).unwrap().map(|one| one.unwrap().path());
        assert_eq!(left.collect::<Vec<_>>(), [path.join("notes")]);
    }

    #[test]
    fn a_folder_that_was_made_goes_with_all_that_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made");
        let folder = Folder::make(&path, Access::Private).unwrap();
        disk::place_soon(&folder, "manifest.json", b"written").unwrap();

        folder.undo(disk::is_written).unwrap();

        assert!(!path.exists());
    }
}
