//! Directory that is held open.
//!
//! The owner of a parent directory can rename a recording's directory and put a link in
//! its place at any time. So no name is resolved twice: files in a directory are
//! created, renamed and removed through the open directory.

#[cfg(not(unix))]
mod by_name;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
mod walk;

#[cfg(not(unix))]
pub use by_name::NamedDir as OpenDir;
#[cfg(unix)]
pub use unix::OpenDir;
#[cfg(unix)]
pub(crate) use walk::{PathTarget, is_foreign, planted, target};

/// Returns whether Windows says that another program has a file open: "access denied"
/// if the file is to be replaced, "sharing violation" otherwise. Missing rights have
/// the same code.
pub fn is_held(error: &std::io::Error) -> bool {
    /// `ERROR_SHARING_VIOLATION`.
    const SHARING_VIOLATION: i32 = 32;
    error.kind() == std::io::ErrorKind::PermissionDenied
        || error.raw_os_error() == Some(SHARING_VIOLATION)
}

/// Type of a name in a directory; a link is not followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EntryKind {
    /// A directory.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Other,
}

/// Description of an entry of a directory. Links are not followed.
#[derive(Clone, Copy, Debug)]
pub struct DirEntryData {
    /// Type of the file.
    pub kind: EntryKind,
    /// Numbers of the device and of the file on it.
    #[cfg(unix)]
    pub inode: (u64, u64),
    /// User that owns it.
    #[cfg(unix)]
    pub user: u32,
    /// Group that owns it.
    #[cfg(unix)]
    pub group: u32,
    /// Permission bits, with set-user-ID, set-group-ID and sticky.
    #[cfg(unix)]
    pub mode: u32,
    /// Number of hard links.
    #[cfg(unix)]
    pub names: u64,
}
