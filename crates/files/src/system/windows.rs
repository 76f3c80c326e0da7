//! Names in directories on Windows.

use std::fs::{self, File, Metadata};
use std::io;
#[cfg(windows)]
use std::os::windows::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// `FILE_FLAG_OPEN_REPARSE_POINT`: a link itself, not its target.
#[cfg(windows)]
const NO_FOLLOW: u32 = 0x0020_0000;
/// `FILE_ATTRIBUTE_REPARSE_POINT`: a link.
#[cfg(windows)]
const LINK: u32 = 0x0400;

/// `ERROR_SHARING_VIOLATION` and `ERROR_ACCESS_DENIED`: errors for an open file.
const SHARING_VIOLATION: i32 = 32;
const ACCESS_DENIED: i32 = 5;

/// A file by its path.
#[derive(Clone, Debug)]
pub(crate) struct OutputPlace {
    shown: PathBuf,
    path: PathBuf,
}

impl OutputPlace {
    /// Finds the file of `path`. Links are followed.
    ///
    /// # Errors
    /// If it is a directory.
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        // A file that does not exist yet is not a link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if target.is_dir() || target.file_name().is_none() {
            let text = "it is a directory; give the name of a file";
            return Err(io::Error::new(io::ErrorKind::IsADirectory, text));
        }
        Ok(Self {
            shown: path.to_owned(),
            path: target,
        })
    }

    /// Returns the path as the user wrote it.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    /// Returns whether a file is replaced.
    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Returns whether it is a regular file, or does not exist yet.
    pub(crate) fn is_regular(&self) -> bool {
        self.path.is_file() || !self.path.exists()
    }

    /// Returns the name with `suffix` in the same directory.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Self {
        let with = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        Self {
            shown: with(&self.shown),
            path: with(&self.path),
        }
    }

    /// Opens a device; returns any other file unopened.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn into_device(self) -> io::Result<Result<File, Self>> {
        if self.path.exists() && !self.path.is_file() {
            return File::options().write(true).open(self.path).map(Ok);
        }
        Ok(Err(self))
    }

    /// Returns `None`: a file that cannot be replaced is not overwritten here.
    ///
    /// # Errors
    /// Never.
    #[allow(clippy::unnecessary_wraps, reason = "as on Unix")]
    pub(crate) const fn open_existing(&self) -> io::Result<Option<File>> {
        Ok(None)
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn open_to_read(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// Creates the file; its directory defines who may read it.
    ///
    /// # Errors
    /// If the system refuses, or if it exists.
    pub(crate) fn create(&self, _mode: u32) -> io::Result<File> {
        File::create_new(&self.path)
    }

    /// Creates the file; its directory defines who may read it.
    ///
    /// # Errors
    /// If the system refuses, or if it exists.
    pub(crate) fn new_file(&self) -> io::Result<File> {
        File::create_new(&self.path)
    }

    /// # Errors
    /// If the system refuses.
    pub(crate) fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    /// Gives this file the name `whole`.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn rename(&self, whole: &Self) -> io::Result<()> {
        fs::rename(&self.path, &whole.path)
    }

    /// Does not change the owner: its directory defines it.
    ///
    /// # Errors
    /// Never.
    #[allow(clippy::unnecessary_wraps, reason = "as on Unix")]
    pub(crate) const fn adopt_owner(&self, _part: &File) -> io::Result<()> {
        Ok(())
    }
}

/// Returns false: see [`OutputPlace::open_existing`].
pub(crate) const fn is_of_directory(_: &io::Error) -> bool {
    false
}

/// Does not reserve.
///
/// # Errors
/// Never.
#[allow(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(crate) const fn reserve(_file: &File, _bytes: u64) -> io::Result<()> {
    Ok(())
}

/// Adds the remedy to an error that another program has a file open.
pub(crate) fn with_remedy_for_open_files(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(SHARING_VIOLATION | ACCESS_DENIED) => io::Error::new(
            error.kind(),
            format!("{error}; close what has it open, or give another name"),
        ),
        _ => error,
    }
}

/// Part that a program left, opened through no link.
#[derive(Debug)]
pub(crate) struct LeftHandle {
    file: File,
    data: Metadata,
}

impl LeftHandle {
    /// # Errors
    /// If it is gone, or cannot be opened.
    pub(crate) fn open(part: &OutputPlace) -> io::Result<Self> {
        let mut options = File::options();
        options.write(true);
        #[cfg(windows)]
        options.custom_flags(NO_FOLLOW);
        let file = options.open(&part.path)?;
        let data = file.metadata()?;
        Ok(Self { file, data })
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    /// Returns whether it is a file and not a link.
    pub(crate) fn is_ours(&self, _whole: &OutputPlace) -> bool {
        #[cfg(windows)]
        let is_link = self.data.file_attributes() & LINK != 0;
        #[cfg(not(windows))]
        let is_link = self.data.is_symlink();
        self.data.is_file() && !is_link
    }

    /// Returns whether `part` is still its name: of the same age and length.
    pub(crate) fn is_still(&self, part: &OutputPlace) -> bool {
        let identity = |data: &Metadata| (data.created().ok(), data.len());
        fs::symlink_metadata(&part.path).is_ok_and(|now| identity(&now) == identity(&self.data))
    }
}
