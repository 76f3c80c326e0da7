//! Message queues without a name.

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// Opens a queue for one message of `message_bytes` bytes. `what` is part of its temporary name. The name
/// is removed before this function returns, so the queue lives until it is closed, however this
/// process ends.
pub(super) fn unnamed(
    what: &str,
    access: libc::c_int,
    message_bytes: usize,
) -> io::Result<OwnedFd> {
    // The system call takes names without the slash.
    let name = CString::new(format!("laggard-{what}-{}", std::process::id()))?;
    // SAFETY: zeroes are a valid value.
    let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
    attributes.mq_maxmsg = 1;
    attributes.mq_msgsize = message_bytes as libc::c_long;
    let flags = access | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: name and attributes are valid for reads.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_mq_open,
            name.as_ptr(),
            flags,
            0o600,
            &raw const attributes,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor.
    let queue = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)) };
    // SAFETY: the name is valid.
    unsafe { libc::syscall(libc::SYS_mq_unlink, name.as_ptr()) };
    Ok(queue)
}
