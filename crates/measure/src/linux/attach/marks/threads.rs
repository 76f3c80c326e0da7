//! Whose marks are in a ring: threads by the numbers that they give themselves.

use std::collections::BTreeMap;
use std::fs;

use laggard_model::{Nanos, Tid};

use super::find::{self, RingId};

/// Threads of a ring that are looked up at a time.
const MOST_LOOKED_UP: u32 = 256;
/// For so long is what was found taken for true: numbers are given again.
const TRUE_FOR: Nanos = Nanos::from_secs(1);

/// A thread that marks, as it is called here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Marker {
    /// `None`: it has ended, and whose it was is not known any more.
    pub(super) process: Option<u32>,
    pub(super) thread: Tid,
}

/// The threads of a ring.
#[derive(Debug)]
pub(super) struct Markers {
    ring: RingId,
    /// Processes that have it.
    holders: Vec<u32>,
    /// Whether one of them calls its threads otherwise than they are called here.
    is_elsewhere: bool,
    /// By what they call themselves; `None`: nobody's, or more than one's.
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

    /// A process has the ring.
    pub(super) fn add(&mut self, process: u32) {
        if !self.holders.contains(&process) {
            self.holders.push(process);
            self.is_elsewhere |= is_elsewhere(process);
            self.known.clear();
        }
    }

    /// It does not, any more; whether nobody does.
    pub(super) fn remove(&mut self, process: u32) -> bool {
        self.holders.retain(|&one| one != process);
        self.holders.is_empty()
    }

    /// The next look begins.
    pub(super) fn renew(&mut self, now: Nanos) {
        self.looked_up = 0;
        if now >= self.known_since + TRUE_FOR {
            self.known_since = now;
            self.known.clear();
        }
    }

    /// Who calls itself so; `None`: nobody who can have written into the ring.
    pub(super) fn of(&mut self, own: u32) -> Option<Marker> {
        if let Some(known) = self.known.get(&own) {
            return *known;
        }
        if self.looked_up == MOST_LOOKED_UP {
            return None;
        }
        self.looked_up += 1;
        if !self.is_elsewhere {
            let found = self.here(own);
            self.known.insert(own, found);
            return found;
        }
        // All of them: which of them it is, only they say.
        for &process in &self.holders {
            for (number, thread) in numbered(process) {
                let process = Some(process);
                let marker = Marker { process, thread };
                let known = self.known.entry(number).or_insert(Some(marker));
                if *known != Some(marker) {
                    *known = None;
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
        // A child may have it that is not known yet.
        let has_it = |process| {
            let all = find::held_by(process).unwrap_or_default();
            all.iter().any(|one| one.id == self.ring)
        };
        let process = Some(process);
        let is_its = process.is_some_and(|one| self.holders.contains(&one) || has_it(one));
        is_its.then_some(Marker { process, thread })
    }
}

/// The process of a thread; `None`: it has ended.
fn process_of(thread: u32) -> Option<u32> {
    let status = status_in(&format!("/proc/{thread}"))?;
    last_of(&status, "Tgid:")
}

/// State of a thread, whose name need not be UTF-8.
fn status_in(folder: &str) -> Option<String> {
    let status = fs::read(format!("{folder}/status")).ok()?;
    Some(String::from_utf8_lossy(&status).into_owned())
}

/// Whether a process calls its threads otherwise than is done here.
fn is_elsewhere(process: u32) -> bool {
    let status = status_in(&format!("/proc/{process}")).unwrap_or_default();
    own_number(&status).is_some_and(|own| own != process)
}

/// Its threads: what they call themselves, and what they are called here.
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

/// The last number of `NSpid`: that in its own namespace.
fn own_number(status: &str) -> Option<u32> {
    last_of(status, "NSpid:")
}

fn last_of(status: &str, field: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().last()?.parse().ok()
}
