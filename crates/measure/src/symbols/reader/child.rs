//! The process that reads symbols.
//!
//! It opens the files with laggard's rights, because only root may read some programs. It gives
//! up all rights before it reads the first byte. From then on it cannot open files or start
//! processes, and its memory and CPU time are limited. It does not filter system calls: only its
//! socket, the open files and the rights of user 65534 are left.
//!
//! A user who starts laggard as this process with crafted files gains nothing. If the program
//! file gave rights (set-user-ID, capabilities), the process gives them up before it opens the
//! files.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, getegid, geteuid, getgid, getuid, setgroups, setresgid, setresuid};

use super::super::elf::ElfFile;
use super::super::label;
use super::super::mappings::{self, MappedInode};
use super::message::{FileRequest, ReaderMessage, receive_files, receive_request, to_file};
use super::{MAX_CPU_S, MAX_LIFE_S};
use crate::linux::file_state::{FileState, file_state};

/// User `nobody`, who owns no files.
const NOBODY: u32 = 65534;
/// Maximum size of additional address space in bytes.
const MAX_ADDRESS_BYTES: u64 = 128 << 20;

/// Answers the request that arrives on standard input.
pub(super) fn answer() -> ExitCode {
    match try_answer() {
        Ok(()) => ExitCode::SUCCESS,
        // The caller is gone, or is not laggard.
        Err(_) => ExitCode::from(2),
    }
}

fn try_answer() -> io::Result<()> {
    begin()?;
    // SAFETY: standard input is open, and nothing else in this process owns it.
    let stream = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(libc::STDIN_FILENO) };
    let stream = UnixStream::from(stream);
    if gained_rights() {
        give_up_rights()?;
    }
    let held = receive_files(&stream)?;
    let requests = receive_request(&stream)?;
    if held.len() != requests.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut out = BufWriter::new(&stream);
    let mut files = Vec::new();
    for (number, held) in held.into_iter().enumerate() {
        ReaderMessage::Start(number).send(&mut out)?;
        out.flush()?;
        match open_held(&held) {
            Ok(file) => files.push((number, file)),
            Err(reason) => ReaderMessage::Refused(number, reason).send(&mut out)?,
        }
        out.flush()?;
    }
    // Opened now because no file can be opened later. The list is read again for each file.
    let maps = File::open("/proc/self/maps")?;
    give_up_rights()?;
    limit()?;
    for (number, file) in files {
        ReaderMessage::Start(number).send(&mut out)?;
        out.flush()?;
        match names(&file, &requests[number], &maps) {
            Ok(names) => {
                for (offset, name) in names.into_iter().enumerate() {
                    ReaderMessage::Function(number, offset, name).send(&mut out)?;
                }
                ReaderMessage::End(number).send(&mut out)?;
            }
            Err(reason) => ReaderMessage::Refused(number, reason).send(&mut out)?,
        }
        out.flush()?;
    }
    Ok(())
}

/// Makes the process end with laggard, or after a time limit, and ignores signals that a terminal
/// sends to the whole group, such as Ctrl-C.
fn begin() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: this installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: this sets a time; the arguments are integers.
    unsafe { libc::alarm(MAX_LIFE_S) };
    end_with_parent()
}

/// Giving up rights clears this setting, so it is called again.
fn end_with_parent() -> io::Result<()> {
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL.cast_unsigned().into())
}

fn prctl(what: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: every request made here takes a number and no pointer.
    let done = unsafe { libc::prctl(what, value, 0, 0, 0) };
    Errno::result(done)?;
    Ok(())
}

/// Returns whether the program file gave this process rights that its caller does not have.
fn gained_rights() -> bool {
    // SAFETY: this reads a number that the kernel provides.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    is_secure || getuid() != geteuid() || getgid() != getegid()
}

/// Gives up every right permanently.
fn give_up_rights() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    let (user, group) = match (
        getuid().is_root() || geteuid().is_root(),
        geteuid() != getuid(),
    ) {
        (true, false) => (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY)),
        _ => (getuid(), getgid()),
    };
    // A root without CAP_SETUID stays root, without any capability.
    let _ = setgroups(&[]);
    let _ = setresgid(group, group, group);
    let _ = setresuid(user, user, user);
    give_up_capabilities()?;
    if geteuid() != getuid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    prctl(libc::PR_SET_DUMPABLE, 0)?;
    end_with_parent()
}

fn give_up_capabilities() -> io::Result<()> {
    /// `struct __user_cap_header_struct` of version 3.
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    let mut header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    // Effective, permitted and inheritable sets, two words each.
    let none = [0_u32; 6];
    // SAFETY: both structures are valid and have the sizes of version 3.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, none.as_ptr()) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets limits. Without rights the process cannot raise them again.
fn limit() -> io::Result<()> {
    let used = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = used
        .split_ascii_whitespace()
        .next()
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    let used = pages.saturating_mul(laggard_files::page_bytes() as u64);
    for (resource, limit) in [
        (Resource::RLIMIT_AS, used.saturating_add(MAX_ADDRESS_BYTES)),
        (Resource::RLIMIT_CPU, MAX_CPU_S),
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_FSIZE, 0),
        (Resource::RLIMIT_NPROC, 0),
        (Resource::RLIMIT_NOFILE, 0),
    ] {
        let (_, hard) = getrlimit(resource)?;
        let limit = limit.min(hard);
        setrlimit(resource, limit, limit)?;
    }
    Ok(())
}

/// Opens a held file. It is still a regular file, because it is the same file.
fn open_held(held: &OwnedFd) -> Result<File, String> {
    // O_NONBLOCK: does not wait for the holder of a lease.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    match open(path.as_str(), flags, Mode::empty()) {
        Ok(file) => Ok(to_file(file)),
        Err(err) => Err(format!(
            "cannot open the file: {}",
            err.desc().to_lowercase()
        )),
    }
}

type Name = Result<String, String>;

/// Returns the names of the functions at the offsets of one file.
fn names(file: &File, request: &FileRequest, maps: &File) -> Result<Vec<Name>, String> {
    let before = check(file, &request.state)?;
    if mapped_inode(file, maps)? != request.mapped {
        return Err("a different file is at its path now".into());
    }
    let mut names = ElfFile::open(file, before.bytes)?.names(&request.offsets)?;
    // Fails if the file was written during the read.
    check(file, &request.state)?;
    for name in names.iter_mut().flat_map(|name| name.as_mut().err()) {
        *name = label::harmless(name);
    }
    Ok(names)
}

/// Compares the file with its state when it was held.
fn check(file: &File, held: &FileState) -> Result<FileState, String> {
    let now = file_state(file).map_err(|err| format!("cannot examine the file: {err}"))?;
    if now == *held {
        Ok(now)
    } else {
        Err("the file changed during the measurement".into())
    }
}

/// Returns device and inode of `file` as a list of mappings shows them. On btrfs and overlayfs
/// they differ from the output of `stat`, but are the same for two mappings of a file.
fn mapped_inode(file: &File, maps: &File) -> Result<MappedInode, String> {
    let refused = |err: &dyn std::fmt::Display| format!("cannot map the file: {err}");
    let length = NonZeroUsize::MIN;
    // SAFETY: the mapping is new and is never read, written or executed.
    let mapping = unsafe {
        mmap(
            None,
            length,
            ProtFlags::PROT_NONE,
            MapFlags::MAP_PRIVATE,
            file,
            0,
        )
    };
    let mapping = mapping.map_err(|err| refused(&err))?;
    let address = mapping.as_ptr().expose_provenance() as u64;
    let lookup = rewound(maps).and_then(|maps| mappings::find(maps, &[address]));
    // SAFETY: nothing else uses the mapping from above.
    let _ = unsafe { munmap(mapping, length.get()) };
    let lookup = lookup.map_err(|err| refused(&err))?;
    let lookup = lookup.first().and_then(|(mapping, _)| mapping.file);
    lookup.ok_or_else(|| refused(&"it has no inode"))
}

/// Rewinds the list, because older kernels write it each time.
fn rewound(mut maps: &File) -> io::Result<&File> {
    io::Seek::rewind(&mut maps)?;
    Ok(maps)
}
