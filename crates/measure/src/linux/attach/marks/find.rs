//! Finds the rings of a process.
//!
//! A file descriptor of another process can change at any time and can refer to any file. It is
//! therefore held with `O_PATH` before it is examined, and opened only if it is a memory file
//! (memfd). On a memory file open, stat and read do not block.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use laggard_marks::layout;

use crate::linux::file_state::{FileState, file_state};

/// Maximum number of rings per process. Each library may have one, and a child has the rings of its
/// parents.
const MOST_OF_ONE: usize = 16;

/// Identity of a ring: device (major and minor) and inode number.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct RingId(u32, u32, u64);

/// Ring that is held with a descriptor but not open yet.
#[derive(Debug)]
pub(super) struct HeldRing {
    pub(super) id: RingId,
    held: File,
}

impl HeldRing {
    /// Holds the file at `path`. Returns `None` if it is not a ring.
    pub(super) fn hold(path: &Path) -> io::Result<Option<Self>> {
        if !is_named(path) {
            return Ok(None);
        }
        let held = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(path)?;
        // Any program can give a file this name, but only memory files are on this device.
        let id = id_of(&held)?;
        let (major, minor) = memory()?;
        let is_there = (id.0, id.1) == (major, minor);
        Ok((is_there && is_named(&own(&held))).then_some(Self { id, held }))
    }

    /// Opens the ring for reading its marks and writing the listening flag.
    pub(super) fn open(&self) -> io::Result<File> {
        // Does not wait for the holder of a lease.
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(own(&self.held))
    }
}

/// Returns the rings that a process has open; none if the process has ended.
///
/// # Errors
/// If a ring cannot be held, or there are too many.
pub(super) fn held_by(process: u32) -> io::Result<Vec<HeldRing>> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return Ok(Vec::new());
    };
    let mut rings: Vec<HeldRing> = Vec::new();
    for entry in entries.flatten() {
        let held = match HeldRing::hold(&entry.path()) {
            // The descriptor was closed in the meantime.
            Err(err) if err.kind() == io::ErrorKind::NotFound => None,
            held => held?,
        };
        if let Some(ring) = held.filter(|ring| rings.iter().all(|other| other.id != ring.id)) {
            if rings.len() == MOST_OF_ONE {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            rings.push(ring);
        }
    }
    Ok(rings)
}

fn own(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Returns true if the file has the name of a ring.
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

/// Returns the device of memory files, which is the same for all of them.
fn memory() -> io::Result<(u32, u32)> {
    // SAFETY: the name ends with 0.
    let made = unsafe { libc::memfd_create(c"laggard-device".as_ptr(), libc::MFD_CLOEXEC) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(made) });
    let RingId(major, minor, _) = id_of(&file)?;
    Ok((major, minor))
}

#[cfg(test)]
mod tests {
    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    #[test]
    fn files_other_than_memory_files_are_not_held() {
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
        // The name alone does not make a file a ring.
        assert_ne!(id_of(&plain).unwrap().1, id_of(&ring).unwrap().1);
    }
}
