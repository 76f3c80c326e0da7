//! Resolves a path step by step, so that links of other users are not followed.
//!
//! In a directory such as `/tmp`, any user can create a link with the name that another
//! user is going to write to. Linux refuses to follow such a link
//! (`fs.protected_symlinks`), but only as the last part of a path, only in directories
//! that all users may write to, and only if the setting is on. Here the rule holds for
//! every part of a path and for directories that a group may write to.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use nix::unistd::geteuid;

use super::{EntryKind, OpenDir};

/// Maximum number of links in a path, as in Linux.
const MAX_LINKS: usize = 40;

/// File behind a path.
#[derive(Debug)]
pub(crate) enum PathTarget {
    /// Name in a directory. It may not exist, and was not a link when it was examined.
    Name {
        dir: OpenDir,
        name: OsString,
        /// True if the path leads through a directory that another user planted.
        is_untrusted: bool,
    },
    Directory,
    /// An open file of this or another process, by its link in `/proc`.
    OpenFile(PathBuf),
}

/// Resolves `path`. The last part need not exist.
///
/// # Errors
/// If a directory on the way is missing or must not be searched, if there are too many
/// links, or if a link must not be followed.
pub(crate) fn target(path: &Path) -> io::Result<PathTarget> {
    let mut walk = Walk::new(path)?;
    while let Some(part) = walk.parts.pop_front() {
        if walk.enter_special(&part)? {
            continue;
        }
        let is_last = walk.parts.is_empty();
        match walk.dir.entry(&part) {
            Err(error) if is_last && error.kind() == io::ErrorKind::NotFound => {
                return Ok(walk.end(part));
            }
            Err(error) => return Err(error),
            Ok(entry) if entry.kind == EntryKind::Link => {
                if is_last && is_open_file(&walk.dir, &part) {
                    return Ok(PathTarget::OpenFile(walk.shown.join(part)));
                }
                walk.follow(&part, entry.user)?;
            }
            Ok(entry) if is_last && entry.kind != EntryKind::Folder => {
                return Ok(walk.end(part));
            }
            Ok(entry) => walk.descend(&part, entry.user)?,
        }
    }
    Ok(PathTarget::Directory)
}

impl OpenDir {
    /// Opens the directory `path` to look names up in it. Links in `path` are followed,
    /// except links of other users in a shared directory.
    ///
    /// # Errors
    /// If it cannot be opened, is not a directory, or if a link must not be followed.
    pub fn search(path: &Path) -> io::Result<Self> {
        let mut walk = Walk::new(path)?;
        while let Some(part) = walk.parts.pop_front() {
            if walk.enter_special(&part)? {
                continue;
            }
            let entry = walk.dir.entry(&part)?;
            match entry.kind {
                EntryKind::Link => walk.follow(&part, entry.user)?,
                EntryKind::Folder | EntryKind::File | EntryKind::Other => {
                    walk.descend(&part, entry.user)?;
                }
            }
        }
        Ok(walk.dir)
    }
}

struct Walk {
    dir: OpenDir,
    /// Path of `dir`, for messages and for links of the kernel.
    shown: PathBuf,
    parts: VecDeque<OsString>,
    links: usize,
    /// True once the walk entered a directory that another user planted. That user controls its
    /// content.
    is_untrusted: bool,
}

impl Walk {
    fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self {
            dir: OpenDir::start(path.is_absolute())?,
            shown: PathBuf::from(if path.is_absolute() { "/" } else { "" }),
            parts: parts(path),
            links: 0,
            is_untrusted: false,
        })
    }

    /// Enters `.`, `..` and `/`. Returns false if `part` is a name.
    fn enter_special(&mut self, part: &OsStr) -> io::Result<bool> {
        match part.as_bytes() {
            b"." => {}
            b"/" => {
                self.dir = OpenDir::start(true)?;
                self.shown = "/".into();
            }
            b".." => {
                self.dir = self.dir.descend(part)?;
                self.shown.push(part);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn descend(&mut self, name: &OsStr, user: u32) -> io::Result<()> {
        self.is_untrusted |= self.dir.is_planted(user)?;
        self.dir = self.dir.descend(name)?;
        self.shown.push(name);
        Ok(())
    }

    fn end(self, name: OsString) -> PathTarget {
        PathTarget::Name {
            dir: self.dir,
            name,
            is_untrusted: self.is_untrusted,
        }
    }

    /// Puts the target of the link `name`, which belongs to `user`, before the
    /// remaining parts.
    fn follow(&mut self, name: &OsStr, user: u32) -> io::Result<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(io::Error::other(
                "the path leads through more than 40 links; name the file itself",
            ));
        }
        if is_open_file(&self.dir, name) {
            self.dir = self.dir.descend_by_kernel(name)?;
            self.shown.push(name);
            return Ok(());
        }
        if self.dir.is_planted(user)? || self.is_untrusted && is_foreign(user) {
            return Err(planted("link", &self.shown.join(name), user));
        }
        let target = PathBuf::from(self.dir.link_target(name)?);
        for part in parts(&target).into_iter().rev() {
            self.parts.push_front(part);
        }
        Ok(())
    }
}

/// Returns whether `user` is neither the user of this process nor root.
pub(crate) fn is_foreign(user: u32) -> bool {
    user != 0 && user != geteuid().as_raw()
}

/// Returns the error about a file that another user could have planted.
pub(crate) fn planted(what: &str, path: &Path, user: u32) -> io::Error {
    let text = format!(
        "the {what} `{}` belongs to user {user}, who could have put it there to mislead \
         you; remove it, or give another name",
        path.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// Returns whether `name` is a link of the kernel to an open file, such as
/// `/proc/self/fd/1`. Its text need not be a path.
fn is_open_file(dir: &OpenDir, name: &OsStr) -> bool {
    let is_number = name.as_bytes().iter().all(u8::is_ascii_digit);
    is_number && dir.is_proc()
}

/// Splits a path into its parts. A path that ends in `/` refers to a directory, so it
/// gets a final `.`.
fn parts(path: &Path) -> VecDeque<OsString> {
    let mut parts: VecDeque<OsString> = path
        .components()
        .map(|component| match component {
            Component::RootDir => OsString::from("/"),
            other @ (Component::Prefix(_)
            | Component::CurDir
            | Component::ParentDir
            | Component::Normal(_)) => other.as_os_str().to_owned(),
        })
        .collect();
    if path.as_os_str().as_bytes().ends_with(b"/") {
        parts.push_back(".".into());
    }
    parts
}
