//! Temporary directories on Windows.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// `FILE_FLAG_DELETE_ON_CLOSE`: the file is removed with its last handle.
const GOES_WHEN_CLOSED: u32 = 0x0400_0000;

/// Marks a temporary directory as used until this program ends, for any reason. The mark is a file
/// next to it that the system then removes.
#[derive(Debug)]
pub(crate) struct LockBeside {
    _file: File,
}

impl LockBeside {
    /// # Errors
    /// If the system refuses it.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let file = File::options()
            .write(true)
            .create_new(true)
            .custom_flags(GOES_WHEN_CLOSED)
            .open(lock_of(folder))?;
        Ok(Self { _file: file })
    }
}

fn lock_of(folder: &Path) -> PathBuf {
    let mut name = OsString::from(folder);
    name.push(".lock");
    name.into()
}

/// Returns true: a directory for temporary files belongs to its user.
///
/// # Errors
/// Does not fail.
#[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
pub(crate) const fn is_safe_around(_around: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Returns true if a temporary directory is older than `settled`, and its program has ended.
///
/// # Errors
/// If it cannot be examined.
pub(crate) fn is_left(path: &Path, settled: Duration) -> io::Result<bool> {
    let data = fs::symlink_metadata(path)?;
    let age = SystemTime::now().duration_since(data.modified()?);
    let is_settled = age.is_ok_and(|age| age >= settled);
    Ok(data.is_dir() && is_settled && !lock_of(path).exists())
}

/// Changes to the parent of `folder`, because a working directory cannot be removed.
pub(crate) fn leave(folder: &Path) {
    if let Some(around) = folder.parent() {
        // An error is ignored: then the removal fails, too.
        let _ = std::env::set_current_dir(around);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_directory_without_a_lock_is_a_leftover() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("copies");
        fs::create_dir(&folder).unwrap();
        let lock = LockBeside::new(&folder).unwrap();

        let held = is_left(&folder, Duration::ZERO).unwrap();
        let held_lock = is_left(&lock_of(&folder), Duration::ZERO).unwrap();
        drop(lock);

        assert!(!held && !held_lock);
        assert!(is_left(&folder, Duration::ZERO).unwrap());
        assert!(!is_left(&folder, Duration::from_secs(60)).unwrap());
        assert!(!lock_of(&folder).exists());
    }
}
