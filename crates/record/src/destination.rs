//! Destination of a new recording.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use laggard_files::{Access, EntryKind, OpenDir};

use crate::folder::Folder;
use crate::{CreateError, WriteError, name};

/// Destination of a new recording and, after its creation, the directory itself.
///
/// The parent directory is looked up once, at the first creation in it. All clones are
/// the same destination.
#[derive(Clone, Debug)]
pub struct Destination(Arc<Spot>);

#[derive(Debug)]
struct Spot {
    path: PathBuf,
    around: OnceLock<OpenDir>,
    made: OnceLock<Folder>,
}

impl<T: AsRef<Path> + ?Sized> From<&T> for Destination {
    fn from(path: &T) -> Self {
        path.as_ref().to_owned().into()
    }
}

impl From<PathBuf> for Destination {
    fn from(path: PathBuf) -> Self {
        Self(Arc::new(Spot {
            path,
            around: OnceLock::new(),
            made: OnceLock::new(),
        }))
    }
}

/// Compares names, so that a destination stays equal after its creation.
impl PartialEq for Destination {
    fn eq(&self, other: &Self) -> bool {
        self.path() == other.path()
    }
}

impl Eq for Destination {}

impl Destination {
    /// Creates the destination `name` in an open directory.
    pub fn within(folder: &Folder, name: &str) -> Self {
        Self(Arc::new(Spot {
            path: folder.path().join(name),
            around: folder.dir().clone().into(),
            made: OnceLock::new(),
        }))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the directory of the recording, after its start.
    pub fn folder(&self) -> Option<&Folder> {
        self.0.made.get()
    }

    /// Stores the directory of the started recording.
    pub(crate) fn begun(&self, folder: Folder) {
        self.0.made.get_or_init(|| folder);
    }

    /// Creates the directory; an existing empty one is used.
    pub(crate) fn take(&self, access: Access) -> Result<Folder, CreateError> {
        let path = self.path();
        // `.`, `..` and `/` exist and do not have a name.
        let Some(name) = path.file_name() else {
            let dir = OpenDir::search(path).and_then(|dir| dir.enter(OsStr::new(".")));
            return self.taken(dir);
        };
        let refusal = if cfg!(windows) {
            name::refusal(&name.to_string_lossy())
        } else {
            None
        };
        if let Some(why) = refusal {
            let dir = path.into();
            return Err(CreateError::Unnameable { dir, why });
        }
        let around = self.around()?;
        match Folder::make_in(around, name, path, access) {
            Ok(made) => Ok(made),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match around.kind(name).map_err(|error| self.refused(error))? {
                    EntryKind::Folder => {
                        let is_planted = around.has_planted(name);
                        if is_planted.map_err(|error| self.refused(error))? {
                            return Err(CreateError::Foreign(path.into()));
                        }
                        self.taken(around.enter(name))
                    }
                    // Another user could make the link point anywhere.
                    EntryKind::Link => Err(CreateError::Link(path.into())),
                    EntryKind::File | EntryKind::Other => Err(CreateError::NotAFolder(path.into())),
                }
            }
            Err(error) => Err(match WriteError::io(path, error) {
                full @ WriteError::DiskFull { .. } => full.into(),
                WriteError::Io { source, .. } | WriteError::Held { source, .. } => {
                    self.refused(source)
                }
                other @ (WriteError::FileLimit { .. }
                | WriteError::UnknownLine { .. }
                | WriteError::Ragged(_)
                | WriteError::TooLarge { .. }
                | WriteError::Encode { .. }
                | WriteError::Manifest { .. }) => other.into(),
            }),
        }
    }

    fn taken(&self, dir: io::Result<OpenDir>) -> Result<Folder, CreateError> {
        let dir = dir.map_err(|error| self.refused(error))?;
        let names = dir.names().map_err(|error| self.refused(error))?;
        if names.is_empty() {
            Ok(Folder::taken(dir, self.path()))
        } else {
            Err(CreateError::NotEmpty(self.path().into()))
        }
    }

    /// Returns the parent directory; always the same one.
    fn around(&self) -> Result<&OpenDir, CreateError> {
        if let Some(around) = self.0.around.get() {
            return Ok(around);
        }
        let parent = self.path().parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let around = OpenDir::search(parent).map_err(|error| {
            let is = |kind| error.kind() == kind;
            if is(io::ErrorKind::NotFound) || is(io::ErrorKind::NotADirectory) {
                CreateError::ParentMissing(parent.into())
            } else if is(io::ErrorKind::PermissionDenied) && error.get_ref().is_some() {
                CreateError::Misled(error)
            } else {
                self.refused(error)
            }
        })?;
        Ok(self.0.around.get_or_init(|| around))
    }

    fn refused(&self, source: io::Error) -> CreateError {
        CreateError::NotWritable {
            dir: self.path().into(),
            source,
        }
    }
}
