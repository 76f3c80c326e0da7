//! FUSE server of one file, which can stop answering. Layouts: the kernel's
//! `include/uapi/linux/fuse.h`.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
/// Node of the file; the directory is 1.
const FILE_NODE: u64 = 2;
const HEADER_BYTES: usize = 40;

/// Mounted server, which ends when this value is dropped.
pub(super) struct FileServer {
    /// Whether it leaves requests to open or read unanswered.
    pub(super) hangs: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    dir: PathBuf,
}

impl FileServer {
    /// Mounts a file system with one file at `dir`.
    pub(super) fn mount(dir: &Path, name: &str, content: Vec<u8>) -> io::Result<Self> {
        let device = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/fuse")?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
            device.as_raw_fd()
        );
        let (target, options) = (path_of(dir), CString::new(options)?);
        // SAFETY: all texts end with 0.
        let mounted = unsafe {
            libc::mount(
                c"laggard-test".as_ptr(),
                target.as_ptr(),
                c"fuse".as_ptr(),
                libc::MS_NOSUID | libc::MS_NODEV,
                options.as_ptr().cast(),
            )
        };
        Errno::result(mounted)?;
        let (hangs, ends) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (hangs_there, ends_there) = (Arc::clone(&hangs), Arc::clone(&ends));
        let name = name.to_owned();
        let thread = std::thread::spawn(move || {
            // An error means that the file system was unmounted.
            let _ = serve(device, &name, &content, &hangs_there, &ends_there);
        });
        Ok(Self {
            hangs,
            ends,
            thread: Some(thread),
            dir: dir.to_owned(),
        })
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        // The end of the server is an error for every waiting process.
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
        let target = path_of(&self.dir);
        // SAFETY: the text ends with 0.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
    }
}

fn path_of(dir: &Path) -> CString {
    CString::new(dir.as_os_str().as_bytes()).unwrap()
}

fn serve(
    mut device: File,
    name: &str,
    content: &[u8],
    hangs: &AtomicBool,
    ends: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    while !ends.load(Ordering::Relaxed) {
        let mut ready = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
        poll(&mut ready, PollTimeout::from(20_u8))?;
        let bytes = match device.read(&mut buffer) {
            Ok(bytes) => bytes,
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => continue,
            Err(err) => return Err(err),
        };
        let request = &buffer[..bytes];
        let number = |offset: usize| u64::from_ne_bytes(request[offset..][..8].try_into().unwrap());
        let small = |offset: usize| u32::from_ne_bytes(request[offset..][..4].try_into().unwrap());
        let (opcode, unique, node) = (small(4), number(8), number(16));
        let body = &request[HEADER_BYTES..];
        let answer = match opcode {
            FORGET | INTERRUPT | BATCH_FORGET => continue,
            OPEN | READ if hangs.load(Ordering::Relaxed) => continue,
            INIT => Ok(words32(&[
                7, 31, 4096, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ])),
            LOOKUP if body.strip_suffix(b"\0") == Some(name.as_bytes()) => {
                let entry = [words64(&[FILE_NODE, 0, 60, 60]), words32(&[0, 0])];
                Ok([entry.concat(), attributes(FILE_NODE, content)].concat())
            }
            LOOKUP => Err(libc::ENOENT),
            GETATTR => {
                let head = [words64(&[60]), words32(&[0, 0])].concat();
                Ok([head, attributes(node, content)].concat())
            }
            OPEN => Ok([words64(&[0]), words32(&[0, 0])].concat()),
            READ => {
                let offset = usize::try_from(number(HEADER_BYTES + 8)).unwrap();
                let bytes = small(HEADER_BYTES + 16) as usize;
                let rest = content.get(offset..).unwrap_or_default();
                Ok(rest[..bytes.min(rest.len())].to_vec())
            }
            RELEASE | FLUSH => Ok(Vec::new()),
            _ => Err(libc::ENOSYS),
        };
        let (error, answer) = match answer {
            Ok(answer) => (0, answer),
            Err(error) => (-error, Vec::new()),
        };
        let length = u32::try_from(16 + answer.len()).unwrap();
        let header = [
            length.to_ne_bytes().to_vec(),
            error.to_ne_bytes().to_vec(),
            words64(&[unique]),
        ];
        // The requesting process may be gone.
        let _ = device.write(&[header.concat(), answer].concat());
    }
    Ok(())
}

fn attributes(node: u64, content: &[u8]) -> Vec<u8> {
    let is_file = node == FILE_NODE;
    let mode = if is_file { 0o100_755 } else { 0o40_755 };
    let bytes = if is_file { content.len() as u64 } else { 0 };
    let numbers = words64(&[node, bytes, bytes.div_ceil(512), 1, 1, 1]);
    [numbers, words32(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])].concat()
}

fn words64(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn words32(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
