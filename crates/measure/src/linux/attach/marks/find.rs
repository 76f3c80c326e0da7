//! The rings that a process has.
//!
//! What a descriptor of another process is may change at any time, and may be anything:
//! it is held before it is looked at, and opened only where it is a file of memory, of
//! which no open, no look and no reading waits for somebody.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use laggard_marks::layout;

use crate::linux::file_state::{FileState, file_state};

/// Rings that a process may have: libraries may have one each, and a child those of its
/// parents.
const MOST_OF_ONE: usize = 16;

/// Which file a ring is: its device, major and minor, and its number there.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct RingId(u32, u32, u64);

/// A ring that is held, and not open yet.
#[derive(Debug)]
pub(super) struct HeldRing {
    pub(super) id: RingId,
    held: File,
}

impl HeldRing {
    /// Holds what is open there; `None`: it is no ring.
    pub(super) fn hold(path: &Path) -> io::Result<Option<Self>> {
        if !is_named(path) {
            return Ok(None);
        }
        let held = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(path)?;
        // Any program can call any file so: only those of memory lie there.
        let id = id_of(&held)?;
        let (major, minor) = memory()?;
        let is_there = (id.0, id.1) == (major, minor);
        Ok((is_there && is_named(&own(&held))).then_some(Self { id, held }))
    }

    /// Opens it, to read it and to say that somebody listens.
    pub(super) fn open(&self) -> io::Result<File> {
        // Whose owner has a lease on it is not waited for.
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(own(&self.held))
    }
}

/// Those that a process has open; none where it has ended.
///
/// # Errors
/// Where one cannot be held, or there are too many.
pub(super) fn held_by(process: u32) -> io::Result<Vec<HeldRing>> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return Ok(Vec::new());
    };
    let mut all: Vec<HeldRing> = Vec::new();
    for entry in entries.flatten() {
        let held = match HeldRing::hold(&entry.path()) {
            // It has been closed meanwhile.
            Err(err) if err.kind() == io::ErrorKind::NotFound => None,
            held => held?,
        };
        if let Some(ring) = held.filter(|ring| all.iter().all(|one| one.id != ring.id)) {
            if all.len() == MOST_OF_ONE {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            all.push(ring);
        }
    }
    Ok(all)
}

fn own(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Whether it is called as a ring is.
fn is_named(path: &Path) -> bool {
    let target = fs::read_link(path).unwrap_or_default();
    let target = target.to_string_lossy();
    let name = target.strip_suffix(" (deleted)").unwrap_or(&target);
    name.strip_prefix("/memfd:") == Some(layout::NAME)
}

fn id_of(file: &File) -> io::Result<RingId> {
    let FileState {
        device: (major, minor),
        inode,
        ..
    } = file_state(file)?;
    Ok(RingId(major, minor, inode))
}

/// The device on which files of memory lie: one for all of them.
fn memory() -> io::Result<(u32, u32)> {
    // SAFETY: the name ends with 0.
    let made = unsafe { libc::memfd_create(c"laggard-device".as_ptr(), libc::MFD_CLOEXEC) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it to us, and nobody else has it.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(made) });
    let RingId(major, minor, _) = id_of(&file)?;
    Ok((major, minor))
}

#[cfg(test)]
mod tests {
    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    #[test]
    fn what_is_no_file_of_memory_is_not_held_whatever_it_is_called() {
        let hold = |file: &File| HeldRing::hold(&own(file)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let folder = File::open("/").unwrap();
        let plain = File::create(dir.path().join("memfd:laggard-marks")).unwrap();
        let ring = File::from(memfd_create(c"laggard-marks", MFdFlags::MFD_CLOEXEC).unwrap());
        let other = File::from(memfd_create(c"laggard-mark", MFdFlags::MFD_CLOEXEC).unwrap());

        assert!(hold(&folder).is_none() && hold(&plain).is_none());
        assert!(hold(&other).is_none());
        let held = hold(&ring).unwrap();
        assert!(held.open().is_ok());
        // The name alone is not what decides.
        assert_ne!(id_of(&plain).unwrap().1, id_of(&ring).unwrap().1);
    }
}
