//! Which threads are meant.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use super::super::pidfd::hold;
use super::super::{Identity, reason_of};
use super::AttachError;

/// A process, or some of its threads. Held by a descriptor: a process that gets
/// its number later is another.
#[derive(Debug)]
pub struct AttachTarget {
    /// Its number here.
    pub process: u32,
    pub(super) descriptor: OwnedFd,
    /// The threads that are meant; none: all, and what they start.
    pub(super) threads: Vec<u32>,
}

impl AttachTarget {
    /// The process `process`, or those of its `threads` that are named.
    ///
    /// # Errors
    /// When they are not there.
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

    /// The same of one that was found a moment ago: `None`, it has ended meanwhile.
    ///
    /// # Errors
    /// When it is there and cannot be held.
    pub fn found(process: u32, threads: Vec<u32>) -> Result<Option<Self>, AttachError> {
        match Self::new(process, threads) {
            Ok(target) => Ok(Some(target)),
            Err(AttachError::NoProcess(..) | AttachError::NoThread(..)) => Ok(None),
            Err(err) => Err(err),
        }
    }
}

/// Processes whose first thread has this name, and threads of others that have it:
/// each process with its threads, none meaning all.
///
/// # Errors
/// When processes cannot be listed.
pub fn find_threads(name: &str) -> io::Result<Vec<(u32, Vec<u32>)>> {
    let mut found = Vec::new();
    let own = std::process::id();
    for process in numbers("/proc")? {
        if process == own {
            continue;
        }
        if has_name(&format!("/proc/{process}/comm"), name) {
            found.push((process, Vec::new()));
            continue;
        }
        let dir = format!("/proc/{process}/task");
        // Gone meanwhile: it has none.
        let threads = numbers(&dir).unwrap_or_default();
        let named = |thread: &u32| has_name(&format!("{dir}/{thread}/comm"), name);
        let threads: Vec<u32> = threads.into_iter().filter(named).collect();
        if !threads.is_empty() {
            found.push((process, threads));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn has_name(path: &str, name: &str) -> bool {
    let read = fs::read(path).unwrap_or_default();
    let read = read.strip_suffix(b"\n").unwrap_or(&read);
    // The kernel keeps 15 bytes.
    let name = &name.as_bytes()[..name.len().min(15)];
    !read.is_empty() && read == name
}

/// The entries of a folder that are numbers.
fn numbers(dir: &str) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(dir)?.flatten();
    Ok(entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

/// Whether the kernel calls this process otherwise than it calls itself.
pub(super) fn is_in_namespace() -> bool {
    match Identity::own() {
        Ok(identity) => identity.process != std::process::id(),
        // Programs that cannot be loaded are refused elsewhere.
        Err(_) => false,
    }
}
