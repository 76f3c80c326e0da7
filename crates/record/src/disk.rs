//! Files of a recording: their names, and how they are put in place whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::WriteError;

pub(crate) const MANIFEST: &str = "manifest.json";
/// The manifest as it was at the start, in case the other is lost.
pub(crate) const MANIFEST_START: &str = "manifest-start.json";
/// Space set aside so that a full disk can still take the last manifest.
pub(crate) const RESERVE: &str = "reserve";

/// The folder of the closed segments and nothing else, so that other programs
/// can read it as one table.
pub(crate) const SAMPLES: &str = "samples";

/// The file of closed segment `number`.
pub(crate) fn segment_name(number: u32) -> String {
    format!("{SAMPLES}/{number:06}.parquet")
}

/// The journal of the rows that will become segment `number`.
pub(crate) fn journal_name(number: u32) -> String {
    format!("open-{number:06}.journal")
}

/// The histograms of one hour.
pub(crate) fn histograms_name(hour: u32) -> String {
    format!("histograms-{hour:06}.parquet")
}

/// The largest latencies of one hour's minutes.
pub(crate) fn largest_name(hour: u32) -> String {
    format!("largest-{hour:06}.parquet")
}

/// What is to be known of all episodes.
pub(crate) const EPISODE_NOTES: &str = "episodes.json";

/// File `number` of the episodes.
pub(crate) fn episodes_name(number: u32) -> String {
    format!("episodes-{number:06}.jsonl.zst")
}

/// The number in `name`, where it is `prefix`, digits and `suffix`.
pub(crate) fn number_in(name: &str, prefix: &str, suffix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse().ok(),
        false => None,
    }
}

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

/// Writes a file under another name, syncs it, and renames it, so that a
/// reader sees the old content or the new, never a part.
pub(crate) fn place(dir: &Path, name: &str, content: &[u8]) -> Result<(), WriteError> {
    put(dir, name, content, true)
}

/// As [`place`], without waiting for the disk: it survives a kill, but perhaps
/// not a power cut.
pub(crate) fn place_soon(dir: &Path, name: &str, content: &[u8]) -> Result<(), WriteError> {
    put(dir, name, content, false)
}

fn put(dir: &Path, name: &str, content: &[u8], is_synced: bool) -> Result<(), WriteError> {
    // Not beside the file: who reads the samples' folder as a whole would read
    // a part, too.
    let part = format!(".{}.part", name.replace('/', "-"));
    let (hidden, file) = (dir.join(part), dir.join(name));
    let folder = file.parent().unwrap_or(dir);
    let sync = |part: &File| if is_synced { part.sync_all() } else { Ok(()) };
    // One of a kill is in the way, or of nobody: then there is nothing to remove.
    let _ = fs::remove_file(&hidden);
    let written = new_file(&hidden)
        .and_then(|mut part| part.write_all(content).and_then(|()| sync(&part)))
        .and_then(|()| fs::rename(&hidden, &file))
        .and_then(|()| {
            if is_synced {
                sync_folder(folder)
            } else {
                Ok(())
            }
        });
    written.map_err(|error| {
        // Best effort: on a full disk the part would keep what space is left,
        // and a reader ignores it either way.
        let _ = fs::remove_file(&hidden);
        WriteError::io(&file, error)
    })
}

/// Makes renames and removals in `dir` survive a power cut.
#[cfg(unix)]
pub(crate) fn sync_folder(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Folders cannot be opened here; the file system keeps renames in order.
#[cfg(not(unix))]
pub(crate) fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
}
