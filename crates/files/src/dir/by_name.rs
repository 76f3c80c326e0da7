//! Directory by its name, on systems that cannot hold one open.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{DirEntryData, EntryKind, is_held};
use crate::access::Access;

/// Time to wait for a file that another program has open.
const HELD: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

/// Directory. Every name passed to it has a single part: it is never a path.
#[derive(Clone, Debug)]
pub struct NamedDir(PathBuf);

impl NamedDir {
    /// Stores the directory `path`; links in it are followed.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn search(path: &Path) -> io::Result<Self> {
        if fs::metadata(path)?.is_dir() {
            Ok(Self(path.to_owned()))
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Stores the directory `name`, which must not be a link.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn enter(&self, name: &OsStr) -> io::Result<Self> {
        match self.kind(name)? {
            EntryKind::Folder => Ok(Self(self.0.join(name))),
            EntryKind::File | EntryKind::Link | EntryKind::Other => {
                Err(io::ErrorKind::NotADirectory.into())
            }
        }
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn make(&self, name: &OsStr, _: Access) -> io::Result<()> {
        fs::create_dir(self.0.join(name))
    }

    /// Creates a new file.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new_file(&self, name: &OsStr) -> io::Result<File> {
        File::create_new(self.0.join(name))
    }

    /// A program that reads the old file or scans the new one may have it open for a
    /// moment.
    pub fn rename(&self, from: &OsStr, to: &Self, name: &OsStr) -> io::Result<()> {
        let until = Instant::now() + HELD;
        loop {
            match fs::rename(self.0.join(from), to.0.join(name)) {
                Err(err) if cfg!(windows) && is_held(&err) && Instant::now() < until => {
                    sleep(LOOK);
                }
                renamed => return renamed,
            }
        }
    }

    /// Creates the file `name`, which must not exist.
    pub fn new_part(&self, name: &OsStr, _mode: u32) -> io::Result<File> {
        self.new_file(name)
    }

    /// Opens `name` for writing without truncating it. A link is not followed.
    pub fn open_for_writing(&self, name: &OsStr, _waits: bool) -> io::Result<File> {
        let mut options = File::options();
        options.write(true);
        #[cfg(windows)]
        {
            use std::os::windows::fs::OpenOptionsExt as _;
            /// `FILE_FLAG_OPEN_REPARSE_POINT`.
            const NO_FOLLOW: u32 = 0x0020_0000;
            options.custom_flags(NO_FOLLOW);
        }
        options.open(self.0.join(name))
    }

    /// Describes `name`; a link is not followed.
    pub fn entry(&self, name: &OsStr) -> io::Result<DirEntryData> {
        Ok(DirEntryData {
            kind: self.kind(name)?,
        })
    }

    /// Returns false: on Windows, a directory defines who may write to it.
    pub fn has_planted(&self, _name: &OsStr) -> io::Result<bool> {
        Ok(false)
    }

    /// Removes a file, or the link itself.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    /// Removes an empty directory.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(self.0.join(name))
    }

    /// Returns the type of `name`; a link is not followed.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn kind(&self, name: &OsStr) -> io::Result<EntryKind> {
        let kind = fs::symlink_metadata(self.0.join(name))?.file_type();
        Ok(match (kind.is_dir(), kind.is_file(), kind.is_symlink()) {
            (true, ..) => EntryKind::Folder,
            (_, true, _) => EntryKind::File,
            (_, _, true) => EntryKind::Link,
            _ => EntryKind::Other,
        })
    }

    /// Returns whether `name` is the directory `other`.
    pub fn has(&self, name: &OsStr, other: &Self) -> bool {
        self.0.join(name) == other.0
    }

    /// Returns the names in it, unordered.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        fs::read_dir(&self.0)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect()
    }

    /// Does not sync: directories cannot be opened here, and the file system keeps
    /// renames in order.
    pub fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the access rights; on Windows its access list decides.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn access(&self) -> io::Result<Access> {
        Ok(Access::Private)
    }

    /// Returns true: directories do not have a comparable owner here.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn is_own(&self) -> io::Result<bool> {
        Ok(true)
    }
}

#[cfg(all(test, windows))]
mod tests {
    use std::os::windows::fs::OpenOptionsExt as _;

    use super::*;

    /// `FILE_SHARE_READ | FILE_SHARE_WRITE`: the mode of editors and scanners, without
    /// `FILE_SHARE_DELETE`.
    const KEEPS: u32 = 3;

    #[test]
    fn file_held_briefly_is_replaced_and_file_held_longer_is_not() {
        let dir = tempfile::TempDir::new().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        let named = NamedDir::search(dir.path()).unwrap();
        let replaced = |held: Duration| {
            fs::write(&old, "old").unwrap();
            fs::write(&new, "new").unwrap();
            let holder = File::options()
                .read(true)
                .share_mode(KEEPS)
                .open(&old)
                .unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    sleep(held);
                    drop(holder);
                });
                named.rename("new".as_ref(), &named, "old".as_ref())
            })
        };

        replaced(HELD / 4).unwrap();
        let refused = replaced(HELD * 3).unwrap_err();

        assert!(is_held(&refused), "{refused}");
        assert_eq!(fs::read(&old).unwrap(), b"old");
    }
}
