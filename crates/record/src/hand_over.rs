//! Owner of a recording.

use std::io;
use std::os::unix::fs::{MetadataExt as _, fchown};

use laggard_files::{EntryKind, OpenDir};

use crate::disk::is_part;
use crate::folder::Folder;

/// User who may change owners.
const ROOT: u32 = 0;

impl Folder {
    /// Gives a complete recording, or a directory of recordings, to another user, so
    /// that a recording made with sudo belongs to that user.
    ///
    /// The directory is the one that was written to, even if another one has its name
    /// now. Its content is reached through open directories, and no link is followed. A
    /// directory with a file that is not part of a recording is not given, nor is its
    /// parent. A directory that already belongs to the user may have other files.
    ///
    /// A directory that existed before is not given, only the files that were written
    /// into it.
    ///
    /// # Errors
    /// If the system refuses, or an unknown file exists.
    pub fn hand_over(&self, user: u32, group: u32) -> io::Result<()> {
        let owner = Owner { user, group };
        owner.take_parts(self.dir())?;
        if self.is_new() {
            owner.take_folder(self.dir())
        } else {
            Ok(())
        }
    }
}

/// New owner.
#[derive(Clone, Copy)]
struct Owner {
    user: u32,
    group: u32,
}

impl Owner {
    /// Gives the content of a directory.
    fn take_parts(self, folder: &OpenDir) -> io::Result<()> {
        let is_theirs = folder.metadata()?.uid() == self.user;
        let mut parts = Vec::new();
        for name in folder.names()? {
            let kind = folder.kind(&name)?;
            if is_part(&name.to_string_lossy()) {
                parts.push((name, kind));
            } else if !is_theirs && kind != EntryKind::Link {
                let name = name.to_string_lossy();
                let name = name.escape_default();
                return Err(io::Error::other(format!(
                    "its file `{name}` is not part of a recording"
                )));
            }
        }
        for (name, kind) in parts {
            match kind {
                EntryKind::Folder => {
                    let inside = folder.enter(&name)?;
                    self.take_parts(&inside)?;
                    self.take_folder(&inside)?;
                }
                EntryKind::File => {
                    let file = folder.look(&name)?;
                    // A second hard link may be anywhere.
                    let data = file.metadata()?;
                    if data.is_file() && data.nlink() == 1 && data.uid() == ROOT {
                        fchown(&file, Some(self.user), Some(self.group))?;
                    }
                }
                EntryKind::Link | EntryKind::Other => {}
            }
        }
        Ok(())
    }

    /// Gives a directory, after its content: until then no other user can change the
    /// content.
    fn take_folder(self, folder: &OpenDir) -> io::Result<()> {
        match folder.metadata()?.uid() {
            ROOT => folder.give(self.user, self.group),
            _ => Ok(()),
        }
    }
}
