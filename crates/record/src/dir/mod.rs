//! A folder that is held open.
//!
//! Who owns the folder around a recording can rename it and put a link in its
//! place, at any instant. So no name is resolved twice: what is in a folder is
//! made, renamed and removed through the folder itself.

#[cfg(not(unix))]
mod by_name;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use by_name::NamedDir as OpenDir;
#[cfg(unix)]
pub(crate) use unix::OpenDir;

/// What a name in a folder stands for; a link for itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EntryKind {
    Folder,
    File,
    Link,
    Other,
}
