//! State of an open file, read without waiting for the file's owner.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _};

/// Identity, type, size and modification time of a file.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FileState {
    /// Device number, major and minor, as `stat` reports it. On btrfs it differs per subvolume.
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    pub(crate) is_regular: bool,
    pub(crate) bytes: u64,
    /// Modification time: seconds and nanoseconds.
    pub(crate) modified: (i64, u32),
}

/// Reads the state of an open file, also if it is open with `O_PATH` only.
///
/// The kernel does not ask a FUSE server or a file server: the result comes from its cache,
/// because a server of another user may never answer.
pub(crate) fn file_state(file: impl AsFd) -> io::Result<FileState> {
    const NO_NAME: &CStr = c"";
    let mut state = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the descriptor is open, the empty name ends with 0, and there is room for the
    // result.
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
    // SAFETY: zeros are valid, and the kernel has filled in the structure.
    let state = unsafe { state.assume_init() };
    Ok(FileState {
        device: (state.stx_dev_major, state.stx_dev_minor),
        inode: state.stx_ino,
        is_regular: u32::from(state.stx_mode) & libc::S_IFMT == libc::S_IFREG,
        bytes: state.stx_size,
        modified: (state.stx_mtime.tv_sec, state.stx_mtime.tv_nsec),
    })
}
