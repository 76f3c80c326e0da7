//! Names in directories on Unix.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use crate::dir::{DirEntryData, EntryKind, OpenDir, PathTarget, is_foreign, planted, target};

/// Permission bits that a file that is replaced passes on: not set-user-ID and the like.
const PERMISSIONS: u32 = 0o777;

/// A name in an open directory, or an open file.
#[derive(Clone, Debug)]
pub(crate) struct OutputPlace {
    shown: PathBuf,
    spot: Spot,
}

#[derive(Clone, Debug)]
enum Spot {
    Name {
        dir: OpenDir,
        name: OsString,
        /// Description of the existing file, if there is one.
        entry: Option<DirEntryData>,
    },
    /// Link in `/proc` to an open file.
    OpenFile(PathBuf),
}

impl OutputPlace {
    /// Finds the file of `path`. Links are followed.
    ///
    /// # Errors
    /// If it is a directory, if its directory is missing, or if another user could have
    /// planted it.
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        let shown = path.to_owned();
        let (dir, name, is_untrusted) = match target(path)? {
            PathTarget::Name {
                dir,
                name,
                is_untrusted,
            } => (dir, name, is_untrusted),
            PathTarget::OpenFile(link) => {
                let spot = Spot::OpenFile(link);
                return Ok(Self { shown, spot });
            }
            PathTarget::Directory => {
                let text = "it is a directory; give the name of a file";
                return Err(io::Error::new(io::ErrorKind::IsADirectory, text));
            }
        };
        let entry = match dir.entry(&name) {
            Ok(entry) => Some(entry),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(entry) = entry
            && (dir.is_planted(entry.user)? || is_untrusted && is_foreign(entry.user))
        {
            let what = match entry.kind {
                EntryKind::Folder => "directory",
                EntryKind::File => "file",
                EntryKind::Link => "link",
                EntryKind::Other => "FIFO or device",
            };
            return Err(planted(what, path, entry.user));
        }
        let spot = Spot::Name { dir, name, entry };
        Ok(Self { shown, spot })
    }

    /// Returns the path as the user wrote it.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    /// Returns whether a file is replaced.
    pub(crate) const fn exists(&self) -> bool {
        matches!(self.spot, Spot::Name { entry: Some(_), .. })
    }

    /// Returns whether it is a regular file, or does not exist yet.
    pub(crate) fn is_regular(&self) -> bool {
        match &self.spot {
            Spot::Name { entry, .. } => entry
                .as_ref()
                .is_none_or(|entry| entry.kind == EntryKind::File),
            Spot::OpenFile(_) => false,
        }
    }

    fn named(&self) -> io::Result<(&OpenDir, &OsString)> {
        match &self.spot {
            Spot::Name { dir, name, .. } => Ok((dir, name)),
            Spot::OpenFile(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    const fn entry(&self) -> Option<&DirEntryData> {
        match &self.spot {
            Spot::Name { entry, .. } => entry.as_ref(),
            Spot::OpenFile(_) => None,
        }
    }

    /// Returns the name with `suffix` in the same directory.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Self {
        let mut shown = self.shown.clone().into_os_string();
        shown.push(suffix);
        let spot = match &self.spot {
            Spot::Name { dir, name, .. } => {
                let mut name = name.clone();
                name.push(suffix);
                let dir = dir.clone();
                let entry = None;
                Spot::Name { dir, name, entry }
            }
            open @ Spot::OpenFile(_) => open.clone(),
        };
        let shown = shown.into();
        Self { shown, spot }
    }

    /// Opens a device, a FIFO or an open file; returns any other file unopened.
    ///
    /// # Errors
    /// If it cannot be opened, or was replaced since it was found.
    pub(crate) fn into_device(self) -> io::Result<Result<File, Self>> {
        match &self.spot {
            Spot::OpenFile(link) => open_file(link).map(Ok),
            Spot::Name { dir, name, entry } => match entry {
                Some(entry) if entry.kind == EntryKind::Other => {
                    let device = dir.open_for_writing(name, true)?;
                    same(&device, entry)?;
                    Ok(Ok(device))
                }
                Some(_) | None => Ok(Err(self)),
            },
        }
    }

    /// Opens the existing regular file without changing it; `None` if it is missing or cannot be
    /// overwritten.
    ///
    /// # Errors
    /// If the user may not write to the file, or if the file was replaced since it was found.
    pub(crate) fn open_existing(&self) -> io::Result<Option<File>> {
        let (dir, name) = self.named()?;
        let Some(entry) = self.entry() else {
            return Ok(None);
        };
        if entry.names > 1 {
            return Err(io::Error::other(
                "it has another hard link, whose content would change too; give another name",
            ));
        }
        let file = dir.open_for_writing(name, false)?;
        same(&file, entry)?;
        Ok(Some(file))
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn open_to_read(&self) -> io::Result<File> {
        let (dir, name) = self.named()?;
        dir.look(name)
    }

    /// Creates the file with these permissions, less the umask.
    ///
    /// # Errors
    /// If the system refuses, or if it exists.
    pub(crate) fn create(&self, mode: u32) -> io::Result<File> {
        let (dir, name) = self.named()?;
        dir.new_part(name, mode)
    }

    /// Creates the file. Other users may read it if the umask permits.
    ///
    /// # Errors
    /// If the system refuses, or if it exists.
    pub(crate) fn new_file(&self) -> io::Result<File> {
        match self.spot {
            Spot::Name { .. } => self.create(0o666),
            Spot::OpenFile(_) => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    /// # Errors
    /// If the system refuses.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let (dir, name) = self.named()?;
        dir.remove_file(name)
    }

    /// Gives this file the name `whole`.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn rename(&self, whole: &Self) -> io::Result<()> {
        let ((dir, name), (other_dir, other_name)) = (self.named()?, whole.named()?);
        dir.rename(name, other_dir, other_name)
    }

    /// Gives `part` the owner, the group and the permissions of the file of this name.
    ///
    /// # Errors
    /// If this user cannot give it that owner or group.
    pub(crate) fn adopt_owner(&self, part: &File) -> io::Result<()> {
        let Some(entry) = self.entry() else {
            return Ok(());
        };
        let now = part.metadata()?;
        if (now.uid(), now.gid()) != (entry.user, entry.group) {
            fchown(part, Some(entry.user), Some(entry.group))?;
        }
        let mode = std::fs::Permissions::from_mode(entry.mode & PERMISSIONS);
        part.set_permissions(mode)
    }
}

/// Returns an error unless `file` is the file that `entry` describes. Another process could have
/// replaced it.
fn same(file: &File, entry: &DirEntryData) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.dev(), now.ino()) == entry.inode {
        return Ok(());
    }
    Err(io::Error::other(
        "another file was put in its place just now; give another name",
    ))
}

/// Opens a file that a process has open for writing, by its link in `/proc`. For the
/// standard streams of this process that is the open file itself, whose position counts.
fn open_file(link: &Path) -> io::Result<File> {
    use std::os::fd::AsFd as _;
    let number = link.file_name().and_then(|name| name.to_str());
    let owner = link.parent().and_then(Path::parent);
    let process = std::process::id().to_string();
    let is_ours = owner.is_some_and(|owner| {
        owner.ends_with(&process) || owner.ends_with("self") || owner.ends_with("thread-self")
    });
    let stream = match (is_ours, number) {
        (true, Some("1")) => Some(io::stdout().as_fd().try_clone_to_owned()?),
        (true, Some("2")) => Some(io::stderr().as_fd().try_clone_to_owned()?),
        _ => None,
    };
    match stream {
        Some(stream) => Ok(stream.into()),
        None => File::options()
            .write(true)
            .custom_flags(OFlag::O_NOCTTY.bits())
            .open(link),
    }
}

/// Returns whether an error is about the directory or the owner, so that an existing
/// file can be overwritten nevertheless.
pub(crate) fn is_of_directory(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw);
    matches!(
        number,
        Some(Errno::EACCES | Errno::EPERM | Errno::EROFS | Errno::ENAMETOOLONG)
    )
}

/// Reserves `bytes` on the disk for `file`, whose content and length stay.
///
/// # Errors
/// If the disk has too little space.
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use nix::fcntl::{FallocateFlags, fallocate};
        let Ok(bytes) = i64::try_from(bytes) else {
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        if bytes > 0 {
            match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, bytes) {
                // Not every file system can reserve.
                Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, bytes);
    Ok(())
}

/// Unix replaces open files.
pub(crate) const fn with_remedy_for_open_files(error: io::Error) -> io::Error {
    error
}

/// Part that a program left, opened through no link.
#[derive(Debug)]
pub(crate) struct LeftFile {
    file: File,
    data: Metadata,
}

impl LeftFile {
    /// # Errors
    /// If it is gone, or a link.
    pub(crate) fn open(part: &OutputPlace) -> io::Result<Self> {
        let (dir, name) = part.named()?;
        let file = dir.open_for_writing(name, false)?;
        let data = file.metadata()?;
        Ok(Self { file, data })
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    /// Returns whether it is a file of this user, or of the owner of `whole`, with a
    /// single name.
    pub(crate) fn is_ours(&self, whole: &OutputPlace) -> bool {
        let owner = self.data.uid();
        let is_known =
            owner == geteuid().as_raw() || whole.entry().is_some_and(|whole| whole.user == owner);
        // The other name of a file with two may be anywhere; a file without a name was
        // removed.
        self.data.is_file() && is_known && self.data.nlink() <= 1
    }

    /// Returns whether `part` is still its name.
    pub(crate) fn is_still(&self, part: &OutputPlace) -> bool {
        let now = part.named().and_then(|(dir, name)| dir.entry(name));
        now.is_ok_and(|now| now.inode == (self.data.dev(), self.data.ino()))
    }
}
