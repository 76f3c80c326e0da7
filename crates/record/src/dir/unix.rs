//! A folder that is held open by its descriptor.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::EntryKind;
use crate::access::Access;

/// Enough to look up names in a folder, for which who may not list it may have
/// the rights.
#[cfg(target_os = "linux")]
const SEARCH: OFlag = OFlag::O_PATH;
#[cfg(not(target_os = "linux"))]
const SEARCH: OFlag = OFlag::O_RDONLY;

const READ_ALL: Mode = Mode::S_IRUSR.union(Mode::S_IRGRP).union(Mode::S_IROTH);
const SEARCH_ALL: Mode = Mode::S_IXUSR.union(Mode::S_IXGRP).union(Mode::S_IXOTH);

/// A folder, whatever becomes of its name. Every name given to it is of one
/// part: it is never a path.
#[derive(Clone, Debug)]
pub(crate) struct OpenDir(Arc<File>);

impl OpenDir {
    /// Holds the folder `path`, links in it followed, to look names up in it.
    pub(crate) fn search(path: &Path) -> io::Result<Self> {
        let flags = SEARCH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self::of(open(path, flags, Mode::empty())?))
    }

    /// Holds the folder `name`, which is no link.
    pub(crate) fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(Self::of(openat(&*self.0, name, flags, Mode::empty())?))
    }

    fn of(open: std::os::fd::OwnedFd) -> Self {
        Self(Arc::new(open.into()))
    }

    /// Makes a folder that is new.
    pub(crate) fn make(&self, name: &OsStr, access: Access) -> io::Result<()> {
        let mode = match access {
            Access::Private => Mode::S_IRWXU,
            Access::Shared => Mode::S_IWUSR | READ_ALL | SEARCH_ALL,
        };
        Ok(mkdirat(&*self.0, name, mode)?)
    }

    /// Makes a file that is new, as open as this folder. Whatever has this name
    /// already, a link too, is neither followed nor written to.
    pub(crate) fn new_file(&self, name: &OsStr) -> io::Result<File> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = match self.access()? {
            Access::Private => Mode::S_IRUSR | Mode::S_IWUSR,
            Access::Shared => Mode::S_IWUSR | READ_ALL,
        };
        Ok(openat(&*self.0, name, flags, mode)?.into())
    }

    /// Opens what is there, to be looked at: nothing is followed or waited for.
    pub(crate) fn look(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        Ok(openat(&*self.0, name, flags, Mode::empty())?.into())
    }

    pub(crate) fn rename(&self, from: &OsStr, to: &Self, name: &OsStr) -> io::Result<()> {
        Ok(renameat(&*self.0, from, &*to.0, name)?)
    }

    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&*self.0, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes a folder in which nothing is.
    pub(crate) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&*self.0, name, UnlinkatFlags::RemoveDir)?)
    }

    pub(crate) fn kind(&self, name: &OsStr) -> io::Result<EntryKind> {
        let stat = fstatat(&*self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
        Ok(match kind {
            SFlag::S_IFDIR => EntryKind::Folder,
            SFlag::S_IFREG => EntryKind::File,
            SFlag::S_IFLNK => EntryKind::Link,
            _ => EntryKind::Other,
        })
    }

    /// Whether `name` stands for the folder `other`.
    pub(crate) fn has(&self, name: &OsStr, other: &Self) -> bool {
        let there = fstatat(&*self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        there.is_ok_and(|there| {
            fstat(&*other.0)
                .is_ok_and(|other| (there.st_dev, there.st_ino) == (other.st_dev, other.st_ino))
        })
    }

    /// The names of all that is in it, in no order.
    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut list = Dir::openat(&*self.0, ".", flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in list.iter() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Makes renames and removals in it survive a power cut.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    /// Who may read what is in it.
    pub(crate) fn access(&self) -> io::Result<Access> {
        Ok(match self.metadata()?.permissions().mode() & 0o077 {
            0 => Access::Private,
            _ => Access::Shared,
        })
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Gives the folder, not what is in it, to another user.
    pub(crate) fn give(&self, user: u32, group: u32) -> io::Result<()> {
        std::os::unix::fs::fchown(&*self.0, Some(user), Some(group))
    }

    /// Whether this process made it: between making and opening, another could
    /// have been put in its place.
    pub(crate) fn is_own(&self) -> io::Result<bool> {
        let owner = self.metadata()?.uid();
        if owner == geteuid().as_raw() {
            return Ok(true);
        }
        // A server can have another name for us; a file tells which.
        let trial = OsStr::new(".own.part");
        let made = self.new_file(trial)?.metadata()?.uid();
        self.remove_file(trial)?;
        Ok(owner == made)
    }
}
