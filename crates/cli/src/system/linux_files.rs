//! Files that are half made, and folders that are temporary, on Linux.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::fcntl::OFlag;

/// Makes the file `path`; `mode`: who may read and write it.
///
/// # Errors
/// When the system refuses; when there is one.
pub(crate) fn new_file(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(mode).open(path)
}

/// As it is: a file that is open can be replaced.
pub(crate) const fn of_replacing(error: io::Error) -> io::Error {
    error
}

/// A file that somebody left half made, opened through no link.
#[derive(Debug)]
pub(crate) struct LeftFile {
    file: File,
    data: Metadata,
}

impl LeftFile {
    /// # Errors
    /// When it is gone, or a link.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options()
            .write(true)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(path)?;
        let data = file.metadata()?;
        Ok(Self { file, data })
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    /// Whether it is a file of this user, with no other name.
    pub(crate) fn is_ours(&self) -> bool {
        let is_theirs = self.data.uid() != nix::unistd::geteuid().as_raw();
        // Of a file with two names, the other may be anywhere; with none, it is gone.
        self.data.is_file() && !is_theirs && self.data.nlink() <= 1
    }

    /// Whether `path` still is its name.
    pub(crate) fn is_still(&self, path: &Path) -> bool {
        let now = fs::symlink_metadata(path);
        now.is_ok_and(|now| (now.dev(), now.ino()) == (self.data.dev(), self.data.ino()))
    }
}

/// Says that a temporary folder is in use, until this program is gone however that
/// ended.
#[derive(Debug)]
pub(crate) struct TemporaryLock {
    _folder: File,
}

impl TemporaryLock {
    /// # Errors
    /// When the system refuses.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let folder = File::open(folder)?;
        folder.lock()?;
        Ok(Self { _folder: folder })
    }
}

/// Whether what lies in the folder `around` is whose it seems to be: where anybody
/// may rename what is ours, a name can stand for anything.
///
/// # Errors
/// When it cannot be looked at.
pub(crate) fn is_safe_around(around: &Path) -> io::Result<bool> {
    let user = nix::unistd::geteuid().as_raw();
    let here = fs::metadata(around)?;
    let is_safe = here.mode() & 0o1000 != 0 || here.mode() & 0o022 == 0;
    Ok(is_safe && [user, 0].contains(&here.uid()))
}

/// Whether a temporary folder, as old as `settled`, is this user's, nobody else's to
/// read, and of a program that has ended.
///
/// # Errors
/// When it cannot be looked at.
pub(crate) fn is_left(path: &Path, settled: Duration) -> io::Result<bool> {
    let folder = File::options()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY).bits())
        .open(path)?;
    let data = folder.metadata()?;
    let age = SystemTime::now().duration_since(data.modified()?);
    let is_settled = age.is_ok_and(|age| age >= settled);
    let user = nix::unistd::geteuid().as_raw();
    if data.uid() != user || data.mode() & 0o077 != 0 || !is_settled {
        return Ok(false);
    }
    match folder.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Nothing: a folder in which a program works can be removed.
pub(crate) const fn leave(_folder: &Path) {}
