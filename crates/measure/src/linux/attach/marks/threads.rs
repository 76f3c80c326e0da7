//! Maps the thread numbers in the marks of a ring to threads.

use std::collections::BTreeMap;
use std::fs;

use laggard_model::{Nanos, Tid};

use super::find::{self, RingId};

/// Maximum number of threads to look up per pass.
const MOST_LOOKED_UP: u32 = 256;
/// Lifetime of a lookup. The kernel reuses thread IDs.
const TRUE_FOR: Nanos = Nanos::from_secs(1);

/// Thread that writes marks, with its IDs in laggard's PID namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Marker {
    /// `None` if the thread has ended and its process is not known.
    pub(super) process: Option<u32>,
    pub(super) thread: Tid,
}

/// Threads that write to a ring.
#[derive(Debug)]
pub(super) struct Markers {
    ring: RingId,
    /// Processes that have the ring.
    holders: Vec<u32>,
    /// True if one of the processes is in another PID namespace.
    is_elsewhere: bool,
    /// Threads by the ID in their own PID namespace. `None` if no thread or several threads have
    /// it.
    known: BTreeMap<u32, Option<Marker>>,
    known_since: Nanos,
    looked_up: u32,
}

impl Markers {
    pub(super) const fn new(ring: RingId) -> Self {
        Self {
            ring,
            holders: Vec::new(),
            is_elsewhere: false,
            known: BTreeMap::new(),
            known_since: Nanos::ZERO,
            looked_up: 0,
        }
    }

    /// Adds a process that has the ring.
    pub(super) fn add(&mut self, process: u32) {
        if !self.holders.contains(&process) {
            self.holders.push(process);
            self.is_elsewhere |= is_elsewhere(process);
            self.known.clear();
        }
    }

    /// Removes a process. Returns true if no process is left.
    pub(super) fn remove(&mut self, process: u32) -> bool {
        self.holders.retain(|&holder| holder != process);
        self.holders.is_empty()
    }

    /// Starts a pass.
    pub(super) fn renew(&mut self, now: Nanos) {
        self.looked_up = 0;
        if now >= self.known_since + TRUE_FOR {
            self.known_since = now;
            self.known.clear();
        }
    }

    /// Returns the thread with this ID in its own namespace. `None` if no thread that can write to
    /// the ring has it.
    pub(super) fn of(&mut self, own: u32) -> Option<Marker> {
        if let Some(marker) = self.known.get(&own) {
            return *marker;
        }
        if self.looked_up == MOST_LOOKED_UP {
            return None;
        }
        self.looked_up += 1;
        if !self.is_elsewhere {
            let marker = self.here(own);
            self.known.insert(own, marker);
            return marker;
        }
        // Searches all threads of all holders, because only their status files have the ID in their
        // namespace.
        for &process in &self.holders {
            for (number, thread) in numbered(process) {
                let process = Some(process);
                let marker = Marker { process, thread };
                let marker_of_number = self.known.entry(number).or_insert(Some(marker));
                if *marker_of_number != Some(marker) {
                    *marker_of_number = None;
                }
            }
        }
        *self.known.entry(own).or_insert(None)
    }

    fn here(&self, own: u32) -> Option<Marker> {
        let thread = Tid(own);
        let Some(process) = process_of(own) else {
            let process = match self.holders.as_slice() {
                &[only] => Some(only),
                _ => None,
            };
            return Some(Marker { process, thread });
        };
        // A child may have the ring without being known yet.
        let has_it = |process| {
            let rings = find::held_by(process).unwrap_or_default();
            rings.iter().any(|ring| ring.id == self.ring)
        };
        let process = Some(process);
        let is_its = process.is_some_and(|holder| self.holders.contains(&holder) || has_it(holder));
        is_its.then_some(Marker { process, thread })
    }
}

/// Returns the process of a thread; `None` if it has ended.
fn process_of(thread: u32) -> Option<u32> {
    let status = status_in(&format!("/proc/{thread}"))?;
    last_of(&status, "Tgid:")
}

/// Reads the status of a thread, whose name need not be UTF-8.
fn status_in(folder: &str) -> Option<String> {
    let status = fs::read(format!("{folder}/status")).ok()?;
    Some(String::from_utf8_lossy(&status).into_owned())
}

/// Returns true if a process is in another PID namespace than laggard.
fn is_elsewhere(process: u32) -> bool {
    let status = status_in(&format!("/proc/{process}")).unwrap_or_default();
    own_number(&status).is_some_and(|own| own != process)
}

/// Returns the threads of a process: the ID in the process's own namespace, and the ID here.
fn numbered(process: u32) -> Vec<(u32, Tid)> {
    let folder = format!("/proc/{process}/task");
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let threads = entries.filter_map(|entry| {
        let here: u32 = entry.file_name().to_str()?.parse().ok()?;
        let status = status_in(&format!("{folder}/{here}"))?;
        Some((own_number(&status)?, Tid(here)))
    });
    threads.collect()
}

/// Returns the last number of `NSpid`, which is the ID in the innermost namespace.
fn own_number(status: &str) -> Option<u32> {
    last_of(status, "NSpid:")
}

fn last_of(status: &str, field: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().last()?.parse().ok()
}
