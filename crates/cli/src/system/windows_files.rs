//! Files that are half made, and folders that are temporary, on Windows.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::windows::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// `FILE_FLAG_OPEN_REPARSE_POINT`: a link itself, not what it leads to.
const NO_FOLLOW: u32 = 0x0020_0000;
/// `FILE_ATTRIBUTE_REPARSE_POINT`: a link.
const LINK: u32 = 0x0400;
/// `FILE_FLAG_DELETE_ON_CLOSE`: gone when nobody has it open.
const GOES_WHEN_CLOSED: u32 = 0x0400_0000;

/// `ERROR_SHARING_VIOLATION` and `ERROR_ACCESS_DENIED`: a file that is open is refused
/// with the one or the other.
const SHARING_VIOLATION: i32 = 32;
const ACCESS_DENIED: i32 = 5;

/// Makes the file `path`; who may read it is up to the folder that it is in.
///
/// # Errors
/// When the system refuses; when there is one.
pub(crate) fn new_file(path: &Path, _mode: u32) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

/// Says what helps where a file cannot be replaced because somebody has it open.
pub(crate) fn of_replacing(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(SHARING_VIOLATION | ACCESS_DENIED) => io::Error::new(
            error.kind(),
            format!("{error}; close what has it open, or give another name"),
        ),
        _ => error,
    }
}

/// A file that somebody left half made, opened through no link.
#[derive(Debug)]
pub(crate) struct LeftHandle {
    file: File,
    data: Metadata,
}

impl LeftHandle {
    /// # Errors
    /// When it is gone, or cannot be opened.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        let file = options.write(true).custom_flags(NO_FOLLOW).open(path)?;
        let data = file.metadata()?;
        Ok(Self { file, data })
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    /// Whether it is a file and no link.
    pub(crate) fn is_ours(&self) -> bool {
        self.data.is_file() && self.data.file_attributes() & LINK == 0
    }

    /// Whether `path` still is its name: as old and as long as it.
    pub(crate) fn is_still(&self, path: &Path) -> bool {
        let of = |data: &Metadata| (data.creation_time(), data.file_size());
        fs::symlink_metadata(path).is_ok_and(|now| of(&now) == of(&self.data))
    }
}

/// Says that a temporary folder is in use, until this program is gone however that
/// ended: a file beside it, which the system removes then.
#[derive(Debug)]
pub(crate) struct LockBeside {
    _file: File,
}

impl LockBeside {
    /// # Errors
    /// When the system refuses.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
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

/// Always: a folder for temporary files is its user's own.
///
/// # Errors
/// Never.
#[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
pub(crate) const fn is_safe_around(_around: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Whether a temporary folder, as old as `settled`, is of a program that has ended.
///
/// # Errors
/// When it cannot be looked at.
pub(crate) fn is_left(path: &Path, settled: Duration) -> io::Result<bool> {
    let data = fs::symlink_metadata(path)?;
    let age = SystemTime::now().duration_since(data.modified()?);
    let is_settled = age.is_ok_and(|age| age >= settled);
    Ok(data.is_dir() && is_settled && !lock_of(path).exists())
}

/// Works beside `folder`: one in which a program works cannot be removed.
pub(crate) fn leave(folder: &Path) {
    if let Some(around) = folder.parent() {
        // Best effort, as is the removal.
        let _ = std::env::set_current_dir(around);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;

    #[test]
    fn a_file_that_somebody_has_open_stays_whole_and_no_half_one_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("page.html");
        fs::write(&page, "before").unwrap();
        let open = File::options().read(true).share_mode(1).open(&page);
        let open = open.unwrap();

        let refused = file::write(&page, "report", b"after").unwrap_err();
        let told = format!("{refused:#}");
        drop(open);
        let before = fs::read_to_string(&page).unwrap();
        file::write(&page, "report", b"after").unwrap();

        assert!(told.contains("close what has it open"), "{told}");
        assert_eq!(before, "before");
        assert_eq!(fs::read_to_string(&page).unwrap(), "after");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }

    #[test]
    fn a_temporary_folder_is_left_when_nobody_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("copies");
        fs::create_dir(&folder).unwrap();
        let lock = LockBeside::of(&folder).unwrap();

        let held = is_left(&folder, Duration::ZERO).unwrap();
        let held_lock = is_left(&lock_of(&folder), Duration::ZERO).unwrap();
        drop(lock);

        assert!(!held && !held_lock);
        assert!(is_left(&folder, Duration::ZERO).unwrap());
        assert!(!is_left(&folder, Duration::from_secs(60)).unwrap());
        assert!(!lock_of(&folder).exists());
    }

    #[test]
    fn what_a_killed_program_left_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("page.html");
        fs::write(dir.path().join("page.html.part"), "half").unwrap();

        file::write(&page, "report", b"whole").unwrap();

        assert_eq!(fs::read_to_string(&page).unwrap(), "whole");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }
}
