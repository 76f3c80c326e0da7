//! Locked pages under memory pressure: a process in a control group with little memory maps
//! two parts of a file, locks one, and then reads more of the file than the group may hold.

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
use nix::unistd::{ForkResult, Pid, fork};

use super::memory_group::MemoryGroup;
use super::pressed::{PAGES, PressureInput, PressureReport, READ, REPORT_BYTES, press};
use super::trial::refused;

/// Memory limit of the group, in sizes of one mapping.
const GROUP_LIMIT: u64 = 4;
/// Minimum duration of the pressure, unless the user stops it.
const MIN_PRESSURE: Nanos = Nanos::from_secs(1);
/// Time between two checks whether the process has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of checks after the end of the planned length. This is not a time, because
/// laggard may be stopped.
const MAX_EXTRA_CHECKS: u64 = 500;

/// Puts a process under memory pressure for at most `length`.
pub(super) fn pages(length: Nanos, stop: &AtomicBool) -> Result<LockedPages, Absence> {
    let page = laggard_files::page_bytes() as u64;
    let mapping_bytes = PAGES as u64 * page;
    let file = sparse_file(mapping_bytes * (2 + READ)).map_err(|err| refused("a file", &err))?;
    let limit_bytes = mapping_bytes * GROUP_LIMIT;
    let group = MemoryGroup::create(limit_bytes)?;
    let door = group
        .door()
        .map_err(|err| refused("a control group", &err))?;
    let (mut report_reader, report_writer) = io::pipe().map_err(|err| refused("a pipe", &err))?;
    let pressed = PressureInput {
        file: &file,
        door: &door,
        page,
        least: MIN_PRESSURE.min(length),
        most: length,
    };
    let child = Child::start(&pressed, &report_writer)?;
    // The child has a copy, so the pipe closes when the child ends.
    drop(report_writer);
    child.ended(length, stop)?;
    let mut bytes = [0; REPORT_BYTES];
    report_reader.read_exact(&mut bytes).map_err(|_| died())?;
    let report = PressureReport::from_bytes(&bytes);
    report.refusal().map_or_else(
        || {
            Ok(LockedPages {
                locked: mapping(report.locked),
                plain: mapping(report.plain),
                limit_bytes,
                limit: group.limit.into(),
                read_bytes: report.read_bytes,
            })
        },
        |(what, err)| Err(refused(what, &err)),
    )
}

fn mapping(
    [resident_before, resident_after, major_faults, minor_faults]: [u64; 4],
) -> MappingPages {
    MappingPages {
        pages: PAGES as u64,
        resident_before,
        resident_after,
        major_faults,
        minor_faults,
    }
}

/// The process, which is killed on drop.
struct Child(Pid);

impl Child {
    fn start(pressed: &PressureInput<'_>, tell: &io::PipeWriter) -> Result<Self, Absence> {
        let parent = nix::unistd::getpid();
        // SAFETY: the child allocates nothing and exits without returning. It has one
        //         thread.
        match unsafe { fork() }.map_err(|err| refused("a process", &err.into()))? {
            ForkResult::Parent { child } => Ok(Self(child)),
            ForkResult::Child => {
                press(pressed, parent, tell.as_fd());
                // SAFETY: does not take pointers or run handlers of the parent.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// Waits for the end of the process, with a limit.
    fn ended(&self, length: Nanos, stop: &AtomicBool) -> Result<(), Absence> {
        let check_ns = u64::try_from(CHECK_INTERVAL.as_nanos()).unwrap_or(1);
        for _ in 0..length.ns() / check_ns + MAX_EXTRA_CHECKS {
            match waitpid(self.0, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => {}
                Ok(WaitStatus::Exited(..)) => return Ok(()),
                Ok(_) | Err(_) => return Err(died()),
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        Err(Absence::new(
            "the memory pressure did not end",
            "repeat on a quiet machine",
            Lacks::Machine,
        ))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The process may have ended and been reaped before.
        if let Ok(WaitStatus::StillAlive) = waitpid(self.0, Some(WaitPidFlag::WNOHANG)) {
            let _ = kill(self.0, Signal::SIGKILL);
            let _ = waitpid(self.0, None);
        }
    }
}

fn died() -> Absence {
    Absence::new(
        "the process under pressure was killed",
        "see `dmesg` for the cause",
        Lacks::Machine,
    )
}

/// It does not take space on the disk, but the kernel caches its pages like pages of other files.
/// Prefers a disk, because a file system in memory evicts nothing.
fn sparse_file(bytes: u64) -> io::Result<File> {
    let directories = [PathBuf::from("/var/tmp"), std::env::temp_dir(), ".".into()];
    let mut unnamed_file = None;
    for directory in &directories {
        let Ok(file) = unnamed(directory) else {
            continue;
        };
        let is_in_memory = is_in_memory(&file);
        unnamed_file = Some(file);
        if !is_in_memory {
            break;
        }
    }
    let file = unnamed_file.ok_or_else(|| io::Error::from(io::ErrorKind::PermissionDenied))?;
    file.set_len(bytes)?;
    Ok(file)
}

fn unnamed(directory: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    let unnamed = options
        .clone()
        .custom_flags(libc::O_TMPFILE)
        .open(directory);
    unnamed.or_else(|_| {
        let path = directory.join(format!(".laggard-rtos-{}", std::process::id()));
        let file = options.create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    })
}

/// `RAMFS_MAGIC` of `linux/magic.h`.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

fn is_in_memory(file: &File) -> bool {
    fstatfs(file).is_ok_and(|system| {
        let kind = system.filesystem_type();
        kind == TMPFS_MAGIC || kind == RAMFS_MAGIC
    })
}
