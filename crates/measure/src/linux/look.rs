//! The state of an open file, read without waiting for whoever provides it.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _};

/// Identity, type, size and time of the last change of a file.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FileLook {
    /// Device, major and minor, as `stat` shows it. On btrfs it differs per subvolume.
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    pub(crate) is_regular: bool,
    pub(crate) bytes: u64,
    /// Modification time: seconds and nanoseconds.
    pub(crate) modified: (i64, u32),
}

/// Reads the state of an open file, also of one that is open with `O_PATH` only.
///
/// A FUSE server or a file server is not asked: the result is what the kernel has in
/// its cache, because a server that belongs to another user may never answer.
pub(crate) fn look(file: impl AsFd) -> io::Result<FileLook> {
    const NO_NAME: &CStr = c"";
    let mut state = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: an open descriptor, an empty name that ends with 0, and room for the result.
    let failed = unsafe {
        libc::statx(
            file.as_fd().as_raw_fd(),
            NO_NAME.as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC,
            libc::STATX_TYPE | libc::STATX_INO | libc::STATX_SIZE | libc::STATX_MTIME,
            state.as_mut_ptr(),
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeros are valid, and the kernel has filled it in.
    let state = unsafe { state.assume_init() };
    Ok(FileLook {
        device: (state.stx_dev_major, state.stx_dev_minor),
        inode: state.stx_ino,
        is_regular: u32::from(state.stx_mode) & libc::S_IFMT == libc::S_IFREG,
        bytes: state.stx_size,
        modified: (state.stx_mtime.tv_sec, state.stx_mtime.tv_nsec),
    })
}
