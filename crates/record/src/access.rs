//! Who may read a recording.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

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
