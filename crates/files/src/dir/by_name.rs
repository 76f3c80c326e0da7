//! A folder by its name, where the system has no way to hold one open.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{DirEntryData, EntryKind, is_held};
use crate::access::Access;

/// How long a file that another program holds is waited for.
const HELD: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

/// A folder. Every name given to it is of one part: it is never a path.
#[derive(Clone, Debug)]
pub struct NamedDir(PathBuf);

impl NamedDir {
    /// Remembers the directory `path`, links in it followed.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn search(path: &Path) -> io::Result<Self> {
        match fs::metadata(path)?.is_dir() {
            true => Ok(Self(path.to_owned())),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Remembers the directory `name`, which is no link.
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

    /// Creates a file that is new.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new_file(&self, name: &OsStr) -> io::Result<File> {
        File::create_new(self.0.join(name))
    }

    /// Who looks at the file that is replaced, or scans the new one, may hold it a moment.
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

    /// Never: a directory says who may write to it.
    pub fn has_planted(&self, _name: &OsStr) -> io::Result<bool> {
        Ok(false)
    }

    /// Removes a file, or a link itself.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    /// Removes a folder in which nothing is.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(self.0.join(name))
    }

    /// Type of `name`; a link is not followed.
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

    /// Whether `name` stands for the folder `other`.
    pub fn has(&self, name: &OsStr, other: &Self) -> bool {
        self.0.join(name) == other.0
    }

    /// The names of all that is in it, in no order.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        fs::read_dir(&self.0)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect()
    }

    /// Folders cannot be opened here; the file system keeps renames in order.
    pub fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Who may read what is in it: as its own access list says.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn access(&self) -> io::Result<Access> {
        Ok(Access::Private)
    }

    /// Always: directories have no owner that could be compared here.
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

    /// `FILE_SHARE_READ | FILE_SHARE_WRITE`: as editors and scanners have it, without
    /// `FILE_SHARE_DELETE`.
    const KEEPS: u32 = 3;

    #[test]
    fn a_file_that_is_held_for_a_moment_is_replaced_and_one_that_stays_held_is_not() {
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
            std::thread::scope(|all| {
                all.spawn(|| {
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
