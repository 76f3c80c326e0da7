//! Selects processes and threads to measure.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use super::super::pidfd::hold;
use super::super::{Identity, reason_of};
use super::AttachError;

/// Process, or some of its threads. It is held by a descriptor, so that a later process with the
/// same ID is not confused with it.
#[derive(Debug)]
pub struct AttachTarget {
    /// Process ID in this namespace.
    pub process: u32,
    pub(super) descriptor: OwnedFd,
    /// Selected threads. If empty, all threads and the threads that they start.
    pub(super) threads: Vec<u32>,
}

impl AttachTarget {
    /// Selects a process, or only some of its `threads`.
    ///
    /// # Errors
    /// If the process or a thread does not exist.
    pub fn new(process: u32, threads: Vec<u32>) -> Result<Self, AttachError> {
        let descriptor = hold(process).map_err(|err| match err.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => AttachError::TooManyFiles(process),
            _ => AttachError::NoProcess(process, reason_of(&err)),
        })?;
        for &thread in &threads {
            if fs::metadata(format!("/proc/{process}/task/{thread}")).is_err() {
                return Err(AttachError::NoThread(process, thread));
            }
        }
        Ok(Self {
            process,
            descriptor,
            threads,
        })
    }

    /// Like `new`, for a process that was found a moment ago. Returns `None` if it has ended.
    ///
    /// # Errors
    /// If it exists and cannot be held.
    pub fn found(process: u32, threads: Vec<u32>) -> Result<Option<Self>, AttachError> {
        match Self::new(process, threads) {
            Ok(target) => Ok(Some(target)),
            Err(AttachError::NoProcess(..) | AttachError::NoThread(..)) => Ok(None),
            Err(err) => Err(err),
        }
    }
}

/// Returns the processes whose main thread has this name, with an empty list of threads, and the
/// threads of other processes that have this name.
///
/// # Errors
/// If processes cannot be listed.
pub fn find_threads(name: &str) -> io::Result<Vec<(u32, Vec<u32>)>> {
    let mut found_threads = Vec::new();
    let own = std::process::id();
    for process in numbers("/proc")? {
        if process == own {
            continue;
        }
        if has_name(&format!("/proc/{process}/comm"), name) {
            found_threads.push((process, Vec::new()));
            continue;
        }
        let dir = format!("/proc/{process}/task");
        // The process has ended.
        let threads = numbers(&dir).unwrap_or_default();
        let named = |thread: &u32| has_name(&format!("{dir}/{thread}/comm"), name);
        let threads: Vec<u32> = threads.into_iter().filter(named).collect();
        if !threads.is_empty() {
            found_threads.push((process, threads));
        }
    }
    found_threads.sort_unstable();
    Ok(found_threads)
}

fn has_name(path: &str, name: &str) -> bool {
    let read = fs::read(path).unwrap_or_default();
    let read = read.strip_suffix(b"\n").unwrap_or(&read);
    // The kernel keeps 15 bytes of a name.
    let name = &name.as_bytes()[..name.len().min(15)];
    !read.is_empty() && read == name
}

/// Returns the entries of a directory that are numbers.
fn numbers(dir: &str) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(dir)?.flatten();
    Ok(entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

/// Returns true if the kernel's process IDs differ from those that this process sees.
pub(super) fn is_in_namespace() -> bool {
    match Identity::own() {
        Ok(identity) => identity.process != std::process::id(),
        // If BPF programs cannot be loaded, another function reports it.
        Err(_) => false,
    }
}
