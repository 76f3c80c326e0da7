//! Lock of a store, which shows other processes that it has a writer.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use nix::fcntl::OFlag;
use nix::sys::statvfs::{Statvfs, fstatvfs, statvfs};

/// Name of the file whose lock marks a store in use.
pub(super) const LOCK: &str = ".lock";

/// Directory that is locked by this process. The kernel releases the lock when the process ends,
/// for any reason.
#[derive(Debug)]
pub(super) struct HeldDir {
    pub(super) dir: File,
    /// For file systems without locks on directories, and for earlier versions.
    pub(super) lock: File,
}

impl HeldDir {
    /// Locks `dir` for this process.
    ///
    /// # Errors
    /// If it is not a directory, if it cannot be written, or if another process has locked
    /// it.
    pub(super) fn lock(dir: &Path) -> anyhow::Result<Self> {
        let shown = dir.display();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlag::O_DIRECTORY.bits());
        let opened = options
            .open(dir)
            .with_context(|| format!("cannot open the store `{shown}`"))?;
        // The directory itself is locked, too, because other users can remove its lock file.
        if let Err(fs::TryLockError::WouldBlock) = opened.try_lock() {
            return Err(taken(dir));
        }
        Ok(Self {
            dir: opened,
            lock: locked_file(dir)?,
        })
    }

    /// Returns true if `dir` is on the file system of this directory, which was mounted again.
    /// Mounting keeps the identity of the file system and the inode of the lock file. A lock file
    /// below the mount point or on another disk is a different file, even if its inode has the same
    /// number.
    pub(super) fn is_mounted_again(&self, dir: &Path) -> bool {
        let lock = fs::symlink_metadata(dir.join(LOCK)).ok();
        let held_lock = self.lock.metadata().ok();
        let inode = |lock: Option<fs::Metadata>| lock.map(|lock| lock.ino());
        let system = |disk: nix::Result<Statvfs>| disk.ok().map(|disk| disk.filesystem_id());
        let is_same_lock = inode(lock) == inode(held_lock);
        is_same_lock && system(statvfs(dir)) == system(fstatvfs(&self.dir))
    }
}

/// Creates and locks the file that marks a store in use.
pub(super) fn locked_file(dir: &Path) -> anyhow::Result<File> {
    let shown = dir.display();
    let lock = lock_file(&dir.join(LOCK))
        .with_context(|| format!("cannot write `{LOCK}` in the store `{shown}`"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(taken(dir)),
        Err(fs::TryLockError::Error(err)) => {
            Err(err).with_context(|| format!("cannot lock the store `{shown}`"))
        }
    }
}

fn taken(dir: &Path) -> anyhow::Error {
    anyhow!(
        "another `laggard serve` writes the store `{}`; give each its own",
        dir.display()
    )
}

/// Opens the file whose lock shows that the store has a writer. Does not follow a link and does not
/// change the content: users that may write to the directory may differ from the user that serves.
pub(super) fn lock_file(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false);
    options.custom_flags(flags.bits()).open(path)
}

/// Returns true if `metadata` belongs to the open file or directory.
pub(super) fn is_same(metadata: &fs::Metadata, open: &File) -> bool {
    let identity = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    open.metadata()
        .is_ok_and(|open| identity(&open) == identity(metadata))
}
