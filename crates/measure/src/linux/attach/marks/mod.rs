//! Reads the marks that other programs set to delimit their cycles.

mod find;
mod ring;
#[cfg(test)]
mod tests;
mod threads;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use laggard_model::{Nanos, ThreadMark};

use find::RingId;
use ring::MarkRing;

/// Maximum number of rings to read. Processes beyond it are counted as refused.
const MOST_RINGS: usize = 256;
/// Minimum interval between two searches for the rings of a process. The interval is a quarter of
/// the time since the process was first seen.
const SHORTEST_WAIT: Nanos = Nanos::from_ms(100);
/// Maximum interval between two searches.
const LONGEST_WAIT: Nanos = Nanos::from_secs(10);

/// Reads the marks of processes.
#[derive(Debug, Default)]
pub struct MarkReader {
    processes: BTreeMap<u32, MarkedProcess>,
    rings: BTreeMap<RingId, MarkRing>,
    /// Marks that were overwritten before they were read, or are invalid.
    pub lost: u64,
    /// Processes whose marks are not read, because there are too many rings or access is denied.
    pub refused: u64,
}

#[derive(Debug)]
struct MarkedProcess {
    rings: BTreeSet<RingId>,
    known_since: Nanos,
    look_at: Nanos,
}

impl MarkReader {
    /// Appends the marks of `processes` since the last call. Drops the state of other processes.
    pub fn read(&mut self, processes: &BTreeSet<u32>, now: Nanos, into: &mut Vec<ThreadMark>) {
        for ring in self.rings.values_mut() {
            // Each ring is read once, even if several processes have it: a child has its parent's
            // rings.
            self.lost = self.lost.saturating_add(ring.read(now, into));
        }
        // Only after the last marks of processes that have ended or called exec were read.
        let gone: Vec<u32> = self.processes.keys().copied().collect();
        for process in gone
            .into_iter()
            .filter(|process| !processes.contains(process))
        {
            if let Some(marked) = self.processes.remove(&process) {
                self.let_go(process, marked.rings.iter());
            }
        }
        for &process in processes {
            let marked = self.processes.entry(process).or_insert(MarkedProcess {
                rings: BTreeSet::new(),
                known_since: now,
                look_at: now,
            });
            if marked.look_at <= now {
                let quarter = now.saturating_sub(marked.known_since).ns() / 4;
                marked.look_at = now + Nanos::from_ns(quarter).clamp(SHORTEST_WAIT, LONGEST_WAIT);
                if self.look(process).is_err() {
                    self.refused += 1;
                    // Each process is counted once.
                    if let Some(marked) = self.processes.get_mut(&process) {
                        marked.look_at = Nanos::MAX;
                    }
                }
            }
        }
    }

    /// Updates the rings of a process.
    fn look(&mut self, process: u32) -> io::Result<()> {
        let mut had = BTreeSet::new();
        if let Some(marked) = self.processes.get_mut(&process) {
            had = std::mem::take(&mut marked.rings);
        }
        let has = self.found(process, &mut had);
        self.let_go(process, had.iter());
        has
    }

    /// Moves the rings that the process still has out of `had`.
    fn found(&mut self, process: u32, had: &mut BTreeSet<RingId>) -> io::Result<()> {
        for held in find::held_by(process)? {
            if !self.rings.contains_key(&held.id) {
                if self.rings.len() >= MOST_RINGS {
                    return Err(io::ErrorKind::QuotaExceeded.into());
                }
                let Some(ring) = MarkRing::open(&held)? else {
                    continue;
                };
                self.rings.insert(held.id, ring);
            }
            if let Some(ring) = self.rings.get_mut(&held.id) {
                ring.markers.add(process);
            }
            had.remove(&held.id);
            if let Some(marked) = self.processes.get_mut(&process) {
                marked.rings.insert(held.id);
            }
        }
        Ok(())
    }

    /// Removes a process from the holders of these rings.
    fn let_go<'a>(&mut self, process: u32, rings: impl Iterator<Item = &'a RingId>) {
        for id in rings {
            let is_nobodys = self.rings.get_mut(id);
            if is_nobodys.is_some_and(|ring| ring.markers.remove(process)) {
                self.rings.remove(id);
            }
        }
    }

    /// Clears the listening flag in all rings. Other listeners set it again.
    pub fn end(&mut self) {
        self.rings.values().for_each(|ring| ring.listen(0));
    }
}
