//! Temporary directories on Linux.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::fcntl::OFlag;

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
