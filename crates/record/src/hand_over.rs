//! Whose a recording is.

use std::io;
use std::os::unix::fs::{MetadataExt as _, fchown};

use laggard_files::{EntryKind, OpenDir};

use crate::disk::is_part;
use crate::folder::Folder;

/// Who gives away.
const ROOT: u32 = 0;

impl Folder {
    /// Gives a recording that is complete, or a folder of recordings, to another
    /// user: made by root for somebody, it is theirs.
    ///
    /// It is the folder that was written to, whatever has its name by now. What
    /// is in it is reached from open folder to open folder, and no link is
    /// followed; a folder with anything that no recording has is not given, nor
    /// is what is around it. One that is the user's already may have it, and
    /// keeps it.
    ///
    /// A folder that was there before is not given, only what was put into it.
    ///
    /// # Errors
    /// When the system refuses, or something else lies there.
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

/// To whom it is given.
#[derive(Clone, Copy)]
struct Owner {
    user: u32,
    group: u32,
}

impl Owner {
    /// All that is in a folder.
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
                    "`{name}` in it is of no recording"
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
                    // A second name of it may be anywhere.
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

    /// A folder, after all that is in it: until then nobody else can change that.
    fn take_folder(self, folder: &OpenDir) -> io::Result<()> {
        match folder.metadata()?.uid() {
            ROOT => folder.give(self.user, self.group),
            _ => Ok(()),
        }
    }
}
