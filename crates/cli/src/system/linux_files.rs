//! Temporary directories on Linux.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::fcntl::OFlag;

/// Marks a temporary directory as used until this program ends, for any reason.
#[derive(Debug)]
pub(crate) struct TemporaryLock {
    _folder: File,
}

impl TemporaryLock {
    /// # Errors
    /// If the system refuses it.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let folder = File::open(folder)?;
        folder.lock()?;
        Ok(Self { _folder: folder })
    }
}

/// Returns true if the entries of the directory `around` are trustworthy: if other users may rename
/// our files, a name can refer to any file.
///
/// # Errors
/// If it cannot be examined.
pub(crate) fn is_safe_around(around: &Path) -> io::Result<bool> {
    let user = nix::unistd::geteuid().as_raw();
    let here = fs::metadata(around)?;
    let is_safe = here.mode() & 0o1000 != 0 || here.mode() & 0o022 == 0;
    Ok(is_safe && [user, 0].contains(&here.uid()))
}

/// Returns true if a temporary directory is older than `settled`, belongs to this user, is
/// unreadable for others, and its program has ended.
///
/// # Errors
/// If it cannot be examined.
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

/// Does nothing: a directory can be removed while a program works in it.
pub(crate) const fn leave(_folder: &Path) {}
