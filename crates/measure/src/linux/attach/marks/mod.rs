//! Marks that programs make of their cycles, read from outside.

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

/// Rings that are read at a time; more are counted.
const MOST_RINGS: usize = 256;
/// A process is looked at again after a quarter of the time for which it is known, but
/// not before this,
const SHORTEST_WAIT: Nanos = Nanos::from_ms(100);
/// and after this.
const LONGEST_WAIT: Nanos = Nanos::from_secs(10);

/// Reads the marks of processes.
#[derive(Debug, Default)]
pub struct MarkReader {
    processes: BTreeMap<u32, MarkedProcess>,
    rings: BTreeMap<RingId, MarkRing>,
    /// Marks that were overwritten before they were read, or are none.
    pub lost: u64,
    /// Processes whose marks are not read: there are too many, or they refuse it.
    pub refused: u64,
}

#[derive(Debug)]
struct MarkedProcess {
    rings: BTreeSet<RingId>,
    known_since: Nanos,
    look_at: Nanos,
}

impl MarkReader {
    /// Appends what `processes` marked since the last call; the others are forgotten.
    pub fn read(&mut self, processes: &BTreeSet<u32>, now: Nanos, into: &mut Vec<ThreadMark>) {
        for ring in self.rings.values_mut() {
            // Once, whoever has it: a child has that of its parent.
            self.lost = self.lost.saturating_add(ring.read(now, into));
        }
        // After what those marked last who have ended, or have become another by exec.
        let gone: Vec<u32> = self.processes.keys().copied().collect();
        for process in gone.into_iter().filter(|one| !processes.contains(one)) {
            if let Some(one) = self.processes.remove(&process) {
                self.let_go(process, one.rings.iter());
            }
        }
        for &process in processes {
            let one = self.processes.entry(process).or_insert(MarkedProcess {
                rings: BTreeSet::new(),
                known_since: now,
                look_at: now,
            });
            if one.look_at <= now {
                let quarter = now.saturating_sub(one.known_since).ns() / 4;
                one.look_at = now + Nanos::from_ns(quarter).clamp(SHORTEST_WAIT, LONGEST_WAIT);
                if self.look(process).is_err() {
                    self.refused += 1;
                    // Once is enough.
                    if let Some(one) = self.processes.get_mut(&process) {
                        one.look_at = Nanos::MAX;
                    }
                }
            }
        }
    }

    /// Looks which rings a process has now.
    fn look(&mut self, process: u32) -> io::Result<()> {
        let mut had = BTreeSet::new();
        if let Some(one) = self.processes.get_mut(&process) {
            had = std::mem::take(&mut one.rings);
        }
        let has = self.found(process, &mut had);
        self.let_go(process, had.iter());
        has
    }

    /// Takes in those that it has, out of `had`; the others are left there.
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
            if let Some(one) = self.processes.get_mut(&process) {
                one.rings.insert(held.id);
            }
        }
        Ok(())
    }

    /// A process does not have them any more.
    fn let_go<'a>(&mut self, process: u32, rings: impl Iterator<Item = &'a RingId>) {
        for id in rings {
            let is_nobodys = self.rings.get_mut(id);
            if is_nobodys.is_some_and(|ring| ring.markers.remove(process)) {
                self.rings.remove(id);
            }
        }
    }

    /// Says that nobody listens any more. Another who does says so again.
    pub fn end(&mut self) {
        self.rings.values().for_each(|ring| ring.listen(0));
    }
}
