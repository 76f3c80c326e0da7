//! Whether locked pages stay in memory: a process in a control group of little memory
//! maps two parts of a file, locks one, and then reads more of the file than the
//! group may have.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use laggard_model::{Absence, Lacks, LockedPages, MappingPages, Nanos};
use nix::sys::signal::{Signal, kill};
use nix::sys::statfs::{FsType, TMPFS_MAGIC, fstatfs};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, SysconfVar, fork, sysconf};

use super::memory_group::MemoryGroup;
use super::pressed::{PAGES, Pressed, PressureReport, READ, REPORT_BYTES, press};
use super::trial::refused;

/// The group may have so many times the memory of one mapping.
const LIMIT: u64 = 4;
/// The pressure lasts at least so long, unless the user has enough.
const LEAST: Nanos = Nanos::from_secs(1);
/// How often is looked whether it is over.
const LOOK: Duration = Duration::from_millis(20);
/// It may take longer than planned by so many looks. Looks, not time: laggard may
/// be stopped.
const PATIENCE_LOOKS: u64 = 500;

/// Puts a process under pressure, for `length` at most.
pub(super) fn pages(length: Nanos, stop: &AtomicBool) -> Result<LockedPages, Absence> {
    let page = page_bytes();
    let mapping = PAGES as u64 * page;
    let file = sparse(mapping * (2 + READ)).map_err(|err| refused("a file", &err))?;
    let limit_bytes = mapping * LIMIT;
    let group = MemoryGroup::make(limit_bytes)?;
    let door = group
        .door()
        .map_err(|err| refused("a control group", &err))?;
    let (mut told, tell) = io::pipe().map_err(|err| refused("a pipe", &err))?;
    let pressed = Pressed {
        file: &file,
        door: &door,
        page,
        least: LEAST.min(length),
        most: length,
    };
    let child = Child::start(&pressed, &tell)?;
    // The child has one of its own: where it ends without a word, so does the pipe.
    drop(tell);
    child.ended(length, stop)?;
    let mut bytes = [0; REPORT_BYTES];
    told.read_exact(&mut bytes).map_err(|_| died())?;
    let report = PressureReport::from_bytes(&bytes);
    report.refusal().map_or_else(
        || {
            Ok(LockedPages {
                locked: seen(report.locked),
                plain: seen(report.plain),
                limit_bytes,
                limit: group.limit.into(),
                read_bytes: report.read_bytes,
            })
        },
        |(what, err)| Err(refused(what, &err)),
    )
}

fn seen([before, after, major_faults, minor_faults]: [u64; 4]) -> MappingPages {
    MappingPages {
        pages: PAGES as u64,
        before,
        after,
        major_faults,
        minor_faults,
    }
}

fn page_bytes() -> u64 {
    let bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    bytes
        .and_then(|one| u64::try_from(one).ok())
        .unwrap_or(4096)
}

/// The process; ended when this value is dropped.
struct Child(Pid);

impl Child {
    fn start(pressed: &Pressed<'_>, tell: &io::PipeWriter) -> Result<Self, Absence> {
        let parent = nix::unistd::getpid();
        // SAFETY: the child allocates nothing and ends without returning; no other
        //         thread of ours runs in it.
        match unsafe { fork() }.map_err(|err| refused("a process", &err.into()))? {
            ForkResult::Parent { child } => Ok(Self(child)),
            ForkResult::Child => {
                press(pressed, parent, tell.as_fd());
                // SAFETY: takes no pointers; nothing of the parent's is closed.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// Waits for its end, but not for ever.
    fn ended(&self, length: Nanos, stop: &AtomicBool) -> Result<(), Absence> {
        let look_ns = u64::try_from(LOOK.as_nanos()).unwrap_or(1);
        for _ in 0..length.ns() / look_ns + PATIENCE_LOOKS {
            match waitpid(self.0, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => {}
                Ok(WaitStatus::Exited(..)) => return Ok(()),
                Ok(_) | Err(_) => return Err(died()),
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        Err(Absence {
            reason: "the pressure did not come to an end".into(),
            remedy: "try it again on a machine that has less to do".into(),
            lacks: Lacks::Machine,
        })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that has ended, and was waited for, is no more.
        if let Ok(WaitStatus::StillAlive) = waitpid(self.0, Some(WaitPidFlag::WNOHANG)) {
            let _ = kill(self.0, Signal::SIGKILL);
            let _ = waitpid(self.0, None);
        }
    }
}

fn died() -> Absence {
    Absence {
        reason: "the process under pressure was killed".into(),
        remedy: "look for who did (`dmesg`)".into(),
        lacks: Lacks::Machine,
    }
}

/// A file of no name that takes no room: all of it is a hole, whose pages the kernel
/// keeps in memory as it does those of other files. On a disk where there is one: of a
/// file system in memory nothing can be moved out.
fn sparse(bytes: u64) -> io::Result<File> {
    let folders = [PathBuf::from("/var/tmp"), std::env::temp_dir(), ".".into()];
    let mut found = None;
    for folder in &folders {
        let Ok(file) = unnamed(folder) else { continue };
        let is_in_memory = is_in_memory(&file);
        found = Some(file);
        if !is_in_memory {
            break;
        }
    }
    let file = found.ok_or_else(|| io::Error::from(io::ErrorKind::PermissionDenied))?;
    file.set_len(bytes)?;
    Ok(file)
}

fn unnamed(folder: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    let unnamed = options.clone().custom_flags(libc::O_TMPFILE).open(folder);
    unnamed.or_else(|_| {
        let path = folder.join(format!(".laggard-rtos-{}", std::process::id()));
        let file = options.create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    })
}

/// Of `linux/magic.h`.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

fn is_in_memory(file: &File) -> bool {
    fstatfs(file).is_ok_and(|system| {
        let kind = system.filesystem_type();
        kind == TMPFS_MAGIC || kind == RAMFS_MAGIC
    })
}
