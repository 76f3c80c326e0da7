//! Where a recording is made.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use laggard_files::{Access, EntryKind, OpenDir};

use crate::folder::Folder;
use crate::{CreateError, WriteError, name};

/// Where a recording is to be made and, once it is, the folder itself.
///
/// The folder around it is looked up once, when first something is made there.
/// All clones are the same place.
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

/// By name: what is planned is the same before it is made and after.
impl PartialEq for Destination {
    fn eq(&self, other: &Self) -> bool {
        self.path() == other.path()
    }
}

impl Eq for Destination {}

impl Destination {
    /// The folder `name` in one that is held open.
    pub fn within(folder: &Folder, name: &str) -> Self {
        Self(Arc::new(Spot {
            path: folder.path().join(name),
            around: folder.dir().clone().into(),
            made: OnceLock::new(),
        }))
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The recording's folder, once it is begun.
    pub fn folder(&self) -> Option<&Folder> {
        self.0.made.get()
    }

    /// Notes that the recording has begun.
    pub(crate) fn begun(&self, folder: Folder) {
        self.0.made.get_or_init(|| folder);
    }

    /// Makes the folder; an empty one is taken.
    pub(crate) fn take(&self, access: Access) -> Result<Folder, CreateError> {
        let path = self.path();
        // `.`, `..` and `/` are there, and have no name.
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
                    // Whoever put it there could lead it anywhere.
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

    /// The folder around it: the same ever after.
    fn around(&self) -> Result<&OpenDir, CreateError> {
        if let Some(around) = self.0.around.get() {
            return Ok(around);
        }
        let parent = self.path().parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let around = OpenDir::search(parent).map_err(|error| {
            let is = |kind| error.kind() == kind;
            match is(io::ErrorKind::NotFound) || is(io::ErrorKind::NotADirectory) {
                true => CreateError::ParentMissing(parent.into()),
                false if is(io::ErrorKind::PermissionDenied) && error.get_ref().is_some() => {
                    CreateError::Misled(error)
                }
                false => self.refused(error),
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
