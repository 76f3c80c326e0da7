//! Who may read a recording, and whose it is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::disk::{RESERVE, SAMPLES};
use crate::{CreateError, WriteError};

/// Who may read a recording: it holds names, arguments and call chains of every
/// process on the machine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Access {
    /// Who made it.
    #[default]
    Private,
    /// Everybody, as far as the umask lets them.
    Shared,
}

/// Makes a folder that is new.
///
/// # Errors
/// When the system refuses, or the name is taken.
pub fn new_folder(dir: &Path, access: Access) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(match access {
            Access::Private => 0o700,
            Access::Shared => 0o755,
        });
    }
    #[cfg(not(unix))]
    let _ = access;
    builder.create(dir)
}

/// Whether the folder is new; an empty one is taken.
pub(crate) fn make_folder(dir: &Path, access: Access) -> Result<bool, CreateError> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        return Err(CreateError::ParentMissing(parent.into()));
    }
    let not_writable = |source| CreateError::NotWritable {
        dir: dir.into(),
        source,
    };
    match new_folder(dir, access) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !dir.is_dir() {
                return Err(CreateError::NotAFolder(dir.into()));
            }
            match fs::read_dir(dir).map_err(not_writable)?.next() {
                None => Ok(false),
                Some(_) => Err(CreateError::NotEmpty(dir.into())),
            }
        }
        Err(error) => Err(match WriteError::io(dir, error) {
            full @ WriteError::DiskFull { .. } => full.into(),
            WriteError::Io { source, .. } => not_writable(source),
            other @ (WriteError::FileLimit { .. }
            | WriteError::UnknownLine { .. }
            | WriteError::Ragged(_)
            | WriteError::TooLarge { .. }
            | WriteError::Encode { .. }
            | WriteError::Manifest { .. }) => other.into(),
        }),
    }
}

/// Makes a folder in another one, as open as that.
pub(crate) fn new_folder_within(dir: &Path) -> io::Result<()> {
    new_folder(dir, access_of(dir.parent())?)
}

/// Makes a file that is new, as open as its folder. Whatever has this name
/// already, a link too, is neither followed nor written to.
pub(crate) fn new_file(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(match access_of(file.parent())? {
            Access::Private => 0o600,
            Access::Shared => 0o644,
        });
    }
    options.open(file)
}

/// Leaves an answer beside recordings, as open as their folder. Whatever has
/// this name already is neither followed nor written to.
///
/// # Errors
/// When the system refuses, or the name is taken.
pub fn put_answer(file: &Path, content: &[u8]) -> io::Result<()> {
    new_file(file)?.write_all(content)
}

/// Who may read what is in a folder.
#[cfg(unix)]
fn access_of(folder: Option<&Path>) -> io::Result<Access> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    let mode = fs::metadata(folder.unwrap_or(Path::new(".")))?
        .permissions()
        .mode();
    Ok(match mode & 0o077 {
        0 => Access::Private,
        _ => Access::Shared,
    })
}

#[cfg(not(unix))]
fn access_of(_: Option<&Path>) -> io::Result<Access> {
    Ok(Access::Private)
}

/// Who gives away.
#[cfg(unix)]
const ROOT: u32 = 0;

/// Gives a recording that is complete, or a folder of recordings, to another
/// user: made by root for somebody, it is theirs.
///
/// Whoever owns the folder around it can put anything in its place meanwhile.
/// So it is walked from open folder to open folder and no link is followed;
/// and a folder with anything that no recording has is not given, nor is what
/// is around it. One that is the user's already may have it, and keeps it.
///
/// What is not root's, as an empty folder of somebody else that was taken, keeps
/// its owner.
///
/// # Errors
/// When the system refuses, or something else lies there.
#[cfg(unix)]
pub fn hand_over(dir: &Path, user: u32, group: u32) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let folder = open_unfollowed(dir, libc::O_DIRECTORY)?;
    let inside = parts_of(&folder, user)?;
    for (path, kind) in &inside {
        if kind.is_dir() {
            hand_over(path, user, group)?;
        } else if kind.is_file() {
            let file = open_unfollowed(path, 0)?;
            // A second name of it may be anywhere.
            let data = file.metadata()?;
            if data.is_file() && data.nlink() == 1 && data.uid() == ROOT {
                fchown(&file, Some(user), Some(group))?;
            }
        }
    }
    if folder.metadata()?.uid() != ROOT {
        return Ok(());
    }
    // Last and innermost first: until then nobody else can change what is in it.
    fchown(&folder, Some(user), Some(group))
}

#[cfg(unix)]
fn open_unfollowed(path: &Path, flags: i32) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | flags)
        .open(path)
}

/// What is in an open folder and of a recording, by paths that stay in it
/// whatever becomes of its name.
#[cfg(unix)]
fn parts_of(folder: &File, user: u32) -> io::Result<Vec<(PathBuf, fs::FileType)>> {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;
    let is_theirs = folder.metadata()?.uid() == user;
    let here = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
    let mut parts = Vec::new();
    for entry in fs::read_dir(here)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let name = name.to_string_lossy();
        if is_part(&name) {
            parts.push((entry.path(), kind));
        } else if !is_theirs && !kind.is_symlink() {
            let name = name.escape_default();
            return Err(io::Error::other(format!(
                "`{name}` in it is of no recording"
            )));
        }
    }
    Ok(parts)
}

/// Whether a recording, or a folder of recordings with an answer, has such a
/// name in it.
#[cfg(unix)]
fn is_part(name: &str) -> bool {
    const ENDS: [&str; 6] = [
        ".parquet",
        ".journal",
        ".jsonl.zst",
        ".part",
        ".laggard",
        ".json",
    ];
    name == SAMPLES || name == RESERVE || ENDS.iter().any(|end| name.ends_with(end))
}
