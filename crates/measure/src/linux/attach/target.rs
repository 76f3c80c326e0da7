//! Selects processes and threads to measure.

use std::collections::BTreeMap;
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
    pub fn from_threads(process: u32, threads: Vec<u32>) -> Result<Option<Self>, AttachError> {
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

/// Returns the descendants of a process that run now, except laggard itself. A parent precedes its
/// children.
///
/// # Errors
/// If processes cannot be listed.
pub fn find_descendants(process: u32) -> io::Result<Vec<u32>> {
    let own = std::process::id();
    let processes = numbers("/proc")?;
    let processes = processes.into_iter().filter(|&process| process != own);
    // A process without a parent has ended.
    let parents = processes.filter_map(|process| Some((parent(process)?, process)));
    let mut children = BTreeMap::<u32, Vec<u32>>::new();
    for (parent, child) in parents {
        children.entry(parent).or_default().push(child);
    }
    let mut descendants = children.remove(&process).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = descendants.get(next).copied() {
        // Removed: an ID that was used again during the search cannot make a loop.
        descendants.extend(children.remove(&process).unwrap_or_default());
        next += 1;
    }
    Ok(descendants)
}

/// Returns the parent of a process: `proc_pid_stat(5)`.
fn parent(process: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name may contain any characters.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
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

/// Returns true if the kernel's process IDs differ from the IDs that this process sees.
pub(super) fn is_in_namespace() -> bool {
    match Identity::own() {
        Ok(identity) => identity.process != std::process::id(),
        // If BPF programs cannot be loaded, another function reports it.
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn descendants_are_children_and_their_children() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 60; :' & wait"])
            .spawn()
            .unwrap();
        let mut descendants = Vec::new();
        // The shells start their children a moment later.
        for _ in 0..1_000 {
            descendants = find_descendants(shell.id()).unwrap();
            if descendants.len() == 2 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }

        assert_eq!(descendants.len(), 2, "{descendants:?}");
        assert_eq!(parent(descendants[0]), Some(shell.id()));
        assert_eq!(parent(descendants[1]), Some(descendants[0]));
        let own = find_descendants(std::os::unix::process::parent_id()).unwrap();
        assert!(!own.contains(&std::process::id()), "{own:?}");
        // The shells end after the innermost process.
        let innermost = nix::unistd::Pid::from_raw(descendants[1].cast_signed());
        nix::sys::signal::kill(innermost, nix::sys::signal::Signal::SIGTERM).unwrap();
        shell.wait().unwrap();
    }
}
