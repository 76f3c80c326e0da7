//! Whose a recording is.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::disk::is_part;

/// Who gives away.
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
pub fn hand_over(dir: &Path, user: u32, group: u32) -> io::Result<()> {
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

fn open_unfollowed(path: &Path, flags: i32) -> io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | flags)
        .open(path)
}

/// What is in an open folder and of a recording, by paths that stay in it
/// whatever becomes of its name.
fn parts_of(folder: &File, user: u32) -> io::Result<Vec<(PathBuf, fs::FileType)>> {
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
