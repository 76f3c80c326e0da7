//! The process that reads symbols.
//!
//! It opens the files with the rights that laggard has, because programs may be for root
//! only, and gives up all rights before it reads the first byte of one. From then on it can
//! open no file, start no process, and use little memory and CPU time. It has no filter of
//! system calls: all that is left are its socket, the open files, and 65534's rights.
//!
//! Whoever starts laggard so, with files of theirs, gains nothing: where the program's file
//! gave rights (set-user-ID, capabilities), these are given up before the files are opened.

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
use super::message::{Answer, FileRequest, receive_files, receive_request, to_file};
use super::{MAX_CPU_S, MAX_LIFE_S};
use crate::linux::look::{FileLook, look};

/// `nobody`, who owns nothing.
const NOBODY: u32 = 65534;
/// Limit on addresses that the process takes in addition to those it has, bytes.
const MAX_ADDRESS_BYTES: u64 = 128 << 20;

/// Answers the request that comes through standard input.
pub(super) fn answer() -> ExitCode {
    match try_answer() {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever asked is gone, or did not ask as laggard does.
        Err(_) => ExitCode::from(2),
    }
}

fn try_answer() -> io::Result<()> {
    begin()?;
    // SAFETY: standard input is open, and used as nothing else here.
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
        Answer::Start(number).send(&mut out)?;
        out.flush()?;
        match open_held(&held) {
            Ok(file) => files.push((number, file)),
            Err(reason) => Answer::Refused(number, reason).send(&mut out)?,
        }
        out.flush()?;
    }
    // A list of mappings that is read again later: then no file can be opened.
    let maps = File::open("/proc/self/maps")?;
    give_up_rights()?;
    limit()?;
    for (number, file) in files {
        Answer::Start(number).send(&mut out)?;
        out.flush()?;
        match names(&file, &requests[number], &maps) {
            Ok(names) => {
                for (offset, name) in names.into_iter().enumerate() {
                    Answer::Function(number, offset, name).send(&mut out)?;
                }
                Answer::End(number).send(&mut out)?;
            }
            Err(reason) => Answer::Refused(number, reason).send(&mut out)?,
        }
        out.flush()?;
    }
    Ok(())
}

/// Has the process end with laggard, or when it takes far too long, and by nothing that
/// ends laggard alone: Ctrl-C goes to all of a terminal.
fn begin() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: no handler of ours runs.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: sets a time, and takes no pointer.
    unsafe { libc::alarm(MAX_LIFE_S) };
    end_with_parent()
}

/// Giving up rights undoes it.
fn end_with_parent() -> io::Result<()> {
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL.cast_unsigned().into())
}

fn prctl(what: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the requests that are made here take a number each, and no pointer.
    let done = unsafe { libc::prctl(what, value, 0, 0, 0) };
    Errno::result(done)?;
    Ok(())
}

/// Whether the program's file gave this process rights that its caller does not have.
fn gained_rights() -> bool {
    // SAFETY: reads a number that the kernel left.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    is_secure || getuid() != geteuid() || getgid() != getegid()
}

/// Becomes a process without any right, and without a way back.
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
    // Effective, permitted and inheritable, in two words each.
    let none = [0_u32; 6];
    // SAFETY: both structures are there, of the sizes of version 3.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, none.as_ptr()) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets limits, which without rights cannot be raised again.
fn limit() -> io::Result<()> {
    let used = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = used
        .split_ascii_whitespace()
        .next()
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    // SAFETY: takes no pointer.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let used = pages.saturating_mul(u64::try_from(page_bytes).unwrap_or(4096));
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

/// Opens a file that is held. It was regular then, and still is: it is the same file.
fn open_held(held: &OwnedFd) -> Result<File, String> {
    // Nobody who has a lease on it is waited for.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    match open(path.as_str(), flags, Mode::empty()) {
        Ok(file) => Ok(to_file(file)),
        Err(err) => Err(format!(
            "the file cannot be opened: {}",
            err.desc().to_lowercase()
        )),
    }
}

type Name = Result<String, String>;

/// Names of the functions at the offsets of one file.
fn names(file: &File, request: &FileRequest, maps: &File) -> Result<Vec<Name>, String> {
    let before = check(file, &request.look)?;
    if mapped_inode(file, maps)? != request.mapped {
        return Err("another file is at its path now".into());
    }
    let mut names = ElfFile::open(file, before.bytes)?.names(&request.offsets)?;
    // Written to while it was read.
    check(file, &request.look)?;
    for name in names.iter_mut().flat_map(|name| name.as_mut().err()) {
        *name = label::harmless(name);
    }
    Ok(names)
}

/// Compares the file with what it was when it was held.
fn check(file: &File, held: &FileLook) -> Result<FileLook, String> {
    let now = look(file).map_err(|err| format!("the file cannot be seen: {err}"))?;
    if now == *held {
        Ok(now)
    } else {
        Err("the file was changed while it was measured".into())
    }
}

/// Device and inode as the list of mappings shows them for a mapping of `file`: on btrfs and
/// overlayfs they differ from those of `stat`, but not between two mappings of a file.
fn mapped_inode(file: &File, maps: &File) -> Result<MappedInode, String> {
    let refused = |err: &dyn std::fmt::Display| format!("the file cannot be mapped: {err}");
    let length = NonZeroUsize::MIN;
    // SAFETY: a new mapping that nobody reads, writes or executes.
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
    let found = rewound(maps).and_then(|maps| mappings::find(maps, &[address]));
    // SAFETY: the mapping from above, which nobody has.
    let _ = unsafe { munmap(mapping, length.get()) };
    let found = found.map_err(|err| refused(&err))?;
    let found = found.first().and_then(|(mapping, _)| mapping.file);
    found.ok_or_else(|| refused(&"it has no inode"))
}

/// The list from its start: older kernels write it out each time.
fn rewound(mut maps: &File) -> io::Result<&File> {
    io::Seek::rewind(&mut maps)?;
    Ok(maps)
}
