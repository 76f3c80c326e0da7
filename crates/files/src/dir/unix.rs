//! Directory that is held open by its descriptor.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::Arc;

use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, open, openat, readlinkat, renameat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::{DirEntryData, EntryKind};
use crate::access::Access;

/// Flags to open a directory for looking up names. This does not require the right to list it.
#[cfg(target_os = "linux")]
const SEARCH: OFlag = OFlag::O_PATH;
#[cfg(not(target_os = "linux"))]
const SEARCH: OFlag = OFlag::O_RDONLY;

const READ_ALL: Mode = Mode::S_IRUSR.union(Mode::S_IRGRP).union(Mode::S_IROTH);
const SEARCH_ALL: Mode = Mode::S_IXUSR.union(Mode::S_IXGRP).union(Mode::S_IXOTH);

/// Directory, independent of later changes of its name. Every name passed to it has a
/// single part: it is never a path.
#[derive(Clone, Debug)]
pub struct OpenDir(Arc<File>);

impl OpenDir {
    /// Opens the directory where a relative or an absolute path starts.
    pub(super) fn start(is_absolute: bool) -> io::Result<Self> {
        let flags = SEARCH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let path = if is_absolute { "/" } else { "." };
        Ok(Self::of(open(path, flags, Mode::empty())?))
    }

    /// Opens the subdirectory `name` to look names up in it. A link is not followed.
    pub(super) fn descend(&self, name: &OsStr) -> io::Result<Self> {
        let flags = SEARCH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(Self::of(openat(&*self.0, name, flags, Mode::empty())?))
    }

    /// Opens the directory that a link of the kernel in `/proc` stands for.
    pub(super) fn descend_by_kernel(&self, name: &OsStr) -> io::Result<Self> {
        let flags = SEARCH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self::of(openat(&*self.0, name, flags, Mode::empty())?))
    }

    /// Reads the target of the link `name`.
    pub(super) fn link_target(&self, name: &OsStr) -> io::Result<OsString> {
        Ok(readlinkat(&*self.0, name)?)
    }

    /// Returns true if this directory is on the file system of `/proc`.
    pub(super) fn is_proc(&self) -> bool {
        use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
        fstatfs(&*self.0).is_ok_and(|system| system.filesystem_type() == PROC_SUPER_MAGIC)
    }

    /// Opens the directory `name`, which must not be a link.
    pub fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(Self::of(openat(&*self.0, name, flags, Mode::empty())?))
    }

    fn of(open: std::os::fd::OwnedFd) -> Self {
        Self(Arc::new(open.into()))
    }

    /// Creates a new directory.
    pub fn make(&self, name: &OsStr, access: Access) -> io::Result<()> {
        let mode = match access {
            Access::Private => Mode::S_IRWXU,
            Access::Shared => Mode::S_IWUSR | READ_ALL | SEARCH_ALL,
        };
        Ok(mkdirat(&*self.0, name, mode)?)
    }

    /// Creates a new file with the access rights of this directory. An existing file or
    /// link of this name is neither followed nor written to.
    pub fn new_file(&self, name: &OsStr) -> io::Result<File> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = match self.access()? {
            Access::Private => Mode::S_IRUSR | Mode::S_IWUSR,
            Access::Shared => Mode::S_IWUSR | READ_ALL,
        };
        Ok(openat(&*self.0, name, flags, mode)?.into())
    }

    /// Creates the file `name` with these permission bits, minus the umask. If the name
    /// exists, also as a link, no file is opened.
    ///
    /// # Errors
    /// If the system refuses, or if the name exists.
    pub fn new_part(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(mode);
        Ok(openat(&*self.0, name, flags, mode)?.into())
    }

    /// Opens `name` for writing without truncating it. A link is not followed. `waits`
    /// says whether to wait for a reader of a FIFO.
    ///
    /// # Errors
    /// If the system refuses, or if it is a link.
    pub fn open_for_writing(&self, name: &OsStr, waits: bool) -> io::Result<File> {
        let mut flags = OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        if !waits {
            flags |= OFlag::O_NONBLOCK;
        }
        Ok(openat(&*self.0, name, flags, Mode::empty())?.into())
    }

    /// Describes `name`; a link is not followed.
    ///
    /// # Errors
    /// If the name does not exist, or the system refuses.
    pub fn entry(&self, name: &OsStr) -> io::Result<DirEntryData> {
        let stat = fstatat(&*self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        #[allow(clippy::useless_conversion, reason = "32 bits on some architectures")]
        let names = u64::from(stat.st_nlink);
        Ok(DirEntryData {
            kind: kind_of(stat.st_mode),
            inode: (stat.st_dev, stat.st_ino),
            user: stat.st_uid,
            group: stat.st_gid,
            mode: stat.st_mode & 0o7777,
            names,
        })
    }

    /// Returns whether an entry of this directory that belongs to `user` may be planted
    /// by an attacker: all users may create files in a sticky directory such as `/tmp`,
    /// and `user` is neither the user of this process, nor the owner of the directory,
    /// nor root. Linux has the same rule for links (`fs.protected_symlinks`).
    ///
    /// # Errors
    /// If the directory cannot be examined.
    pub fn is_planted(&self, user: u32) -> io::Result<bool> {
        const STICKY: u32 = 0o1000;
        const WRITABLE_BY_OTHERS: u32 = 0o022;
        let directory = self.metadata()?;
        let mode = directory.mode();
        let is_shared = mode & STICKY != 0 && mode & WRITABLE_BY_OTHERS != 0;
        let trusted = [geteuid().as_raw(), directory.uid(), 0];
        Ok(is_shared && !trusted.contains(&user))
    }

    /// Returns whether the directory `name` was planted here by another user, other
    /// than the caller of `sudo` ([`Self::is_planted`]).
    ///
    /// # Errors
    /// If the name does not exist, or the system refuses.
    pub fn has_planted(&self, name: &OsStr) -> io::Result<bool> {
        let user = self.entry(name)?.user;
        let caller = crate::caller::sudo_caller().map(|(user, _)| user);
        Ok(self.is_planted(user)? && caller != Some(user))
    }

    /// Opens a file for examination, without following a link or waiting.
    pub fn look(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        Ok(openat(&*self.0, name, flags, Mode::empty())?.into())
    }

    /// Renames the file `from` to `name` in `to`, and replaces an existing file.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn rename(&self, from: &OsStr, to: &Self, name: &OsStr) -> io::Result<()> {
        Ok(renameat(&*self.0, from, &*to.0, name)?)
    }

    /// Removes a file, or the link itself.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&*self.0, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes an empty directory.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&*self.0, name, UnlinkatFlags::RemoveDir)?)
    }

    /// Returns the type of `name`; a link is not followed.
    ///
    /// # Errors
    /// If the name does not exist, or the system refuses.
    pub fn kind(&self, name: &OsStr) -> io::Result<EntryKind> {
        let stat = fstatat(&*self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        Ok(kind_of(stat.st_mode))
    }

    /// Returns whether `name` is the directory `other`.
    pub fn has(&self, name: &OsStr, other: &Self) -> bool {
        let there = fstatat(&*self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        there.is_ok_and(|there| {
            fstat(&*other.0)
                .is_ok_and(|other| (there.st_dev, there.st_ino) == (other.st_dev, other.st_ino))
        })
    }

    /// Returns the names in it, unordered.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
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
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    /// Returns the access rights of its content.
    pub fn access(&self) -> io::Result<Access> {
        Ok(match self.metadata()?.permissions().mode() & 0o077 {
            0 => Access::Private,
            _ => Access::Shared,
        })
    }

    /// Describes the directory itself.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Gives the directory, not its content, to another user.
    pub fn give(&self, user: u32, group: u32) -> io::Result<()> {
        std::os::unix::fs::fchown(&*self.0, Some(user), Some(group))
    }

    /// Returns whether this process created it: between creation and opening, another
    /// one could have been put in its place.
    pub fn is_own(&self) -> io::Result<bool> {
        let owner = self.metadata()?.uid();
        if owner == geteuid().as_raw() {
            return Ok(true);
        }
        // A server can map our user to another one; a new file shows which.
        let trial = OsStr::new(".own.part");
        let made = self.new_file(trial)?.metadata()?.uid();
        self.remove_file(trial)?;
        Ok(owner == made)
    }
}

const fn kind_of(mode: u32) -> EntryKind {
    match SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFDIR => EntryKind::Folder,
        SFlag::S_IFREG => EntryKind::File,
        SFlag::S_IFLNK => EntryKind::Link,
        _ => EntryKind::Other,
    }
}
