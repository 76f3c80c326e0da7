//! Mapped files, held for later reading.
//!
//! Another user chooses the mapped file and can redirect its path. A file is therefore held with
//! `O_PATH`, which reads nothing and never blocks, and the kernel reports the file of the mapping.
//! Only the process that reads symbols opens it ([`super::reader`]).

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::Mode;

use super::mappings::{MappedInode, Mapping};
use crate::linux::file_state::{FileState, file_state};

/// `RESOLVE_CACHED` of the kernel's `include/uapi/linux/openat2.h` (Linux 5.12): the kernel
/// refuses names that are not in its cache instead of asking a file server.
const RESOLVE_CACHED: u64 = 0x20;
/// Maximum number of attempts. A rename elsewhere in the system can disturb an attempt.
const MAX_ATTEMPTS: usize = 3;

/// Mapped file that is held but not open.
#[derive(Debug)]
pub(super) struct HeldFile {
    pub(super) held: OwnedFd,
    /// Device and inode of the mapping.
    pub(super) mapped: MappedInode,
    /// State of the file when laggard held it.
    pub(super) state: FileState,
}

impl HeldFile {
    /// Holds the file of a mapping. `process` is the directory of the process in `/proc`.
    ///
    /// # Errors
    ///
    /// Returns the reason, as a text for the user.
    pub(super) fn hold(
        process: BorrowedFd<'_>,
        mapping: &Mapping,
        mapped: MappedInode,
    ) -> Result<Self, String> {
        let (held, state) = match hold_mapped(process, mapping) {
            // This needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE in the initial user namespace.
            Err(Errno::EPERM | Errno::EACCES) => hold_path(process, mapping, mapped)?,
            Err(err) => return Err(format!("cannot find its file: {}", in_words(err))),
            Ok(held) => {
                let state =
                    file_state(&held).map_err(|err| format!("cannot examine its file: {err}"))?;
                (held, state)
            }
        };
        if state.is_regular {
            Ok(Self {
                held,
                mapped,
                state,
            })
        } else {
            Err("its file is not a regular file".into())
        }
    }
}

/// Opens the directory of a process in `/proc`, or a file in it.
pub(super) fn open_process(process: u32) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(open(
        format!("/proc/{process}").as_str(),
        flags,
        Mode::empty(),
    )?)
}

/// Holds the file that the kernel has for the mapping, independent of the mapping's path.
fn hold_mapped(process: BorrowedFd<'_>, mapping: &Mapping) -> Result<OwnedFd, Errno> {
    let link = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    openat(process, link.as_str(), flags, Mode::empty())
}

/// Holds the file at the mapping's path, as the process or laggard sees it. The reader checks
/// later that it is the mapped file.
fn hold_path(
    process: BorrowedFd<'_>,
    mapping: &Mapping,
    mapped: MappedInode,
) -> Result<(OwnedFd, FileState), String> {
    let path = Path::new(without_deleted(&mapping.name));
    let Ok(relative) = path.strip_prefix("/") else {
        return Err("its file has no path".into());
    };
    let mut refused = Errno::ENOENT;
    let mut candidates = Vec::new();
    for root in roots(process) {
        match open_cached(root.as_fd(), relative) {
            Ok(held) => {
                let state =
                    file_state(&held).map_err(|err| format!("cannot examine its file: {err}"))?;
                candidates.push((held, state));
            }
            Err(err) => refused = err,
        }
    }
    // On overlayfs the inode number can differ from that in the mapping.
    candidates.sort_by_key(|(_, state)| state.inode != mapped.inode);
    let candidate = candidates.into_iter().next();
    candidate.ok_or_else(|| format!("cannot open its path: {}", in_words(refused)))
}

/// Returns the root directory of the process, if it is accessible, and laggard's.
fn roots(process: BorrowedFd<'_>) -> impl Iterator<Item = OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let theirs = openat(process, "root", flags, Mode::empty());
    let own = open("/", flags, Mode::empty());
    [theirs, own].into_iter().flatten()
}

/// Follows a path below `root` without symbolic links and without asking a file server.
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
        "only a file server knows it, which may not answer".into()
    } else if [Errno::EINVAL, Errno::ENOSYS].contains(&err) {
        // The kernel does not know RESOLVE_CACHED or openat2.
        "only Linux 5.12 or later can open it without waiting for its owner".into()
    } else {
        err.desc().to_lowercase()
    }
}

/// Removes the suffix that the kernel adds to the paths of deleted files.
pub(super) fn without_deleted(name: &OsStr) -> &OsStr {
    let bytes = name.as_bytes();
    OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes))
}
