//! Mapped files, held so that they can be read later.
//!
//! Another user decides which file is mapped and what its path leads to. So a file is
//! held with `O_PATH`, which reads nothing and waits for nobody, and the kernel is asked
//! which file the mapping has. Only the process that reads symbols opens it
//! ([`super::reader`]).

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::Mode;

use super::mappings::{MappedInode, Mapping};
use crate::linux::look::{FileLook, look};

/// `RESOLVE_CACHED` of the kernel's `include/uapi/linux/openat2.h` (Linux 5.12): what the
/// kernel does not have in its cache is refused, instead of asking a file server.
const RESOLVE_CACHED: u64 = 0x20;
/// Attempts, since a rename elsewhere in the system can disturb one.
const MAX_ATTEMPTS: usize = 3;

/// Mapped file, held but not open.
#[derive(Debug)]
pub(super) struct HeldFile {
    pub(super) held: OwnedFd,
    /// Device and inode that the mapping shows.
    pub(super) mapped: MappedInode,
    /// State of the file when it was held.
    pub(super) look: FileLook,
}

impl HeldFile {
    /// Holds the file of a mapping. `process`: its directory in `/proc`.
    ///
    /// # Errors
    /// The reason why it cannot be held, for a person.
    pub(super) fn hold(
        process: BorrowedFd<'_>,
        mapping: &Mapping,
        mapped: MappedInode,
    ) -> Result<Self, String> {
        let (held, look) = match hold_mapped(process, mapping) {
            // It takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE of the whole machine.
            Err(Errno::EPERM | Errno::EACCES) => hold_path(process, mapping, mapped)?,
            Err(err) => return Err(format!("its file cannot be found: {}", in_words(err))),
            Ok(held) => {
                let look = look(&held).map_err(|err| format!("its file cannot be seen: {err}"))?;
                (held, look)
            }
        };
        if look.is_regular {
            Ok(Self { held, mapped, look })
        } else {
            Err("its file is not a regular file".into())
        }
    }
}

/// Opens a directory of a process, or a file in it, that `/proc` has.
pub(super) fn open_process(process: u32) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(open(
        format!("/proc/{process}").as_str(),
        flags,
        Mode::empty(),
    )?)
}

/// Holds the file that the kernel has for the mapping, whatever its path leads to.
fn hold_mapped(process: BorrowedFd<'_>, mapping: &Mapping) -> Result<OwnedFd, Errno> {
    let link = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    openat(process, link.as_str(), flags, Mode::empty())
}

/// Holds the file that the mapping's path leads to, as the process sees it or as laggard
/// does. Whether it is the mapped one is checked before it is read.
fn hold_path(
    process: BorrowedFd<'_>,
    mapping: &Mapping,
    mapped: MappedInode,
) -> Result<(OwnedFd, FileLook), String> {
    let path = Path::new(without_deleted(&mapping.name));
    let Ok(relative) = path.strip_prefix("/") else {
        return Err("its file has no path".into());
    };
    let mut refused = Errno::ENOENT;
    let mut candidates = Vec::new();
    for root in roots(process) {
        match open_cached(root.as_fd(), relative) {
            Ok(held) => {
                let look = look(&held).map_err(|err| format!("its file cannot be seen: {err}"))?;
                candidates.push((held, look));
            }
            Err(err) => refused = err,
        }
    }
    // Inode numbers of overlayfs can differ from those of the mapping.
    candidates.sort_by_key(|(_, look)| look.inode != mapped.inode);
    let candidate = candidates.into_iter().next();
    candidate.ok_or_else(|| format!("its path cannot be opened: {}", in_words(refused)))
}

/// Root directory of the process, if it may be seen, and laggard's.
fn roots(process: BorrowedFd<'_>) -> impl Iterator<Item = OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let theirs = openat(process, "root", flags, Mode::empty());
    let own = open("/", flags, Mode::empty());
    [theirs, own].into_iter().flatten()
}

/// Follows a path below `root`, through no symbolic link and no file server.
fn open_cached(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW)
        .resolve(
            ResolveFlag::RESOLVE_IN_ROOT
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::from_bits_retain(RESOLVE_CACHED),
        );
    let mut attempts = 0;
    loop {
        attempts += 1;
        match openat2(root, path, how) {
            Err(Errno::EAGAIN) if attempts < MAX_ATTEMPTS => {}
            result => return result,
        }
    }
}

fn in_words(err: Errno) -> String {
    if err == Errno::EAGAIN {
        "a file server would have to be asked".into()
    } else if [Errno::EINVAL, Errno::ENOSYS].contains(&err) {
        // RESOLVE_CACHED or openat2 itself is unknown.
        "it takes Linux 5.12 to open it without waiting for its owner".into()
    } else {
        err.desc().to_lowercase()
    }
}

/// The path without the mark that the kernel puts behind those of deleted files.
pub(super) fn without_deleted(name: &OsStr) -> &OsStr {
    let bytes = name.as_bytes();
    OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes))
}
