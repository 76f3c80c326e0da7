//! Virus scanner: reads every file that a program opens before the open returns (OSDI'99 4.4,
//! Fig. 5).
//!
//! The kernel allows all waiting opens when the group is closed, also if this process is killed.
//! The scanning thread opens no file, so it never waits for itself.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::RunError;

/// Maximum part of a file that is read, bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Size of a read, bytes.
const BLOCK_BYTES: usize = 64 << 10;
/// Interval of the checks for the end, ms.
const POLL_MS: u8 = 100;
/// Size of `struct fanotify_event_metadata`, and places of its fields.
const EVENT_BYTES: usize = 24;
const DESCRIPTOR: usize = 16;

/// Group that gets a permission event for each open.
pub(super) struct Scanner(File);

impl Scanner {
    /// Opens a group that watches nothing yet.
    ///
    /// # Errors
    /// Without `CAP_SYS_ADMIN`, and on kernels without permission events.
    pub(super) fn new() -> Result<Self, RunError> {
        let flags = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        // Without O_NONBLOCK, the kernel would wait for the other end of a FIFO.
        let files = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOATIME;
        // SAFETY: the arguments are integers.
        let group = unsafe { libc::fanotify_init(flags, files.cast_unsigned()) };
        let group = Errno::result(group).map_err(|err| refused(err.into()))?;
        // SAFETY: a new descriptor that nothing else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(group) }.into()))
    }

    /// Reads the opened files of the mounts of `/` and of the directory for temporary files until
    /// it `ends`. Returns their number.
    pub(super) fn scan(&mut self, ends: &dyn Fn() -> bool) -> Result<u64, RunError> {
        self.watch(Path::new("/")).map_err(refused)?;
        self.watch(&std::env::temp_dir()).map_err(refused)?;
        let mut files = 0;
        let mut events = [0; 64 * EVENT_BYTES];
        let mut block = vec![0; BLOCK_BYTES];
        while !ends() {
            let mut waiting = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waiting, PollTimeout::from(POLL_MS)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(err) => return Err(refused(err.into())),
            }
            let length = match self.0.read(&mut events) {
                Ok(length) => length,
                Err(err) if is_temporary(&err) => continue,
                Err(err) => return Err(refused(err)),
            };
            for event in events[..length].chunks_exact(EVENT_BYTES) {
                files += u64::from(self.serve(event, &mut block).map_err(refused)?);
            }
        }
        Ok(files)
    }

    /// Watches the mount with this path.
    fn watch(&self, path: &Path) -> io::Result<()> {
        let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_MOUNT;
        // SAFETY: the path is a string that outlives the call.
        let marked = unsafe {
            libc::fanotify_mark(
                self.0.as_raw_fd(),
                flags,
                libc::FAN_OPEN_PERM,
                libc::AT_FDCWD,
                path.as_ptr(),
            )
        };
        Ok(Errno::result(marked).map(drop)?)
    }

    /// Reads the file of an event and allows its open. Returns whether there was a file.
    fn serve(&mut self, event: &[u8], block: &mut [u8]) -> io::Result<bool> {
        let descriptor = event[DESCRIPTOR..].first_chunk().copied();
        let descriptor = i32::from_ne_bytes(descriptor.unwrap_or_default());
        // The queue overflowed: the kernel has allowed the opens that did not fit.
        if descriptor < 0 {
            return Ok(false);
        }
        // SAFETY: the kernel opened it for this event.
        let file: File = unsafe { OwnedFd::from_raw_fd(descriptor) }.into();
        if file.metadata().is_ok_and(|data| data.is_file()) {
            let mut content = (&file).take(MAX_BYTES);
            // A file that cannot be read is allowed too.
            while content.read(block).is_ok_and(|length| length > 0) {}
        }
        let allow = [descriptor.cast_unsigned(), libc::FAN_ALLOW].map(u32::to_ne_bytes);
        self.0.write_all(allow.as_flattened())?;
        Ok(true)
    }
}

fn is_temporary(err: &io::Error) -> bool {
    matches!(
        err.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

const fn refused(source: io::Error) -> RunError {
    RunError::Scanner { source }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const FILE_BYTES: usize = 16 << 10;

    /// Returns the number of bytes that this thread read from files.
    fn read_bytes() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        line.unwrap().parse().unwrap()
    }

    #[test]
    fn opened_file_is_scanned_before_the_open_returns() {
        let mut scanner = match Scanner::new() {
            Ok(scanner) => scanner,
            Err(err) => {
                println!("skipped: {err}");
                return;
            }
        };
        // Other programs open files too, so only the lower limit is known.
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[0; FILE_BYTES]).unwrap();
        let stop = AtomicBool::new(false);

        let (files, bytes) = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let files = scanner.scan(&|| stop.load(Ordering::Relaxed)).unwrap();
                (files, read_bytes())
            });
            for _ in 0..100 {
                std::thread::sleep(std::time::Duration::from_millis(2));
                File::open(file.path()).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            worker.join().unwrap()
        });

        assert!(files >= 50, "{files}");
        assert!(bytes >= 50 * FILE_BYTES as u64, "{bytes}");
    }
}
