//! The memory that each thread goes through as soon as it has the CPU: what of it
//! others have put out of the caches, it waits for.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::Nanos;

use laggard_measure::board::Memory as _;
use laggard_measure::linux::clock;
use laggard_measure::linux::mapping::Mapped;

/// A line of the caches.
const LINE_BYTES: usize = 64;
/// How often a thread goes through it alone: the first few fill the caches.
const WARMING: usize = 3;
const ALONE: usize = 15;

/// The same amount for each of so many threads.
#[derive(Debug)]
pub(super) struct WorkingSets {
    memory: Mapped<AtomicU64>,
    words: usize,
}

impl WorkingSets {
    /// `None`: nobody has any.
    pub(super) fn new(threads: usize, bytes: u64) -> io::Result<Option<Self>> {
        let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
        let all = words.checked_mul(threads);
        match all.ok_or(io::ErrorKind::OutOfMemory)? {
            0 => Ok(None),
            all => Ok(Some(Self {
                memory: Mapped::anonymous(all)?,
                words,
            })),
        }
    }

    /// Goes through that of one thread: a number of each line is counted up.
    pub(super) fn go_through(&self, own: usize) {
        let words = &self.memory.all()[own * self.words..][..self.words];
        for word in words.iter().step_by(LINE_BYTES / size_of::<AtomicU64>()) {
            let next = word.load(Ordering::Relaxed).wrapping_add(1);
            word.store(next, Ordering::Relaxed);
        }
    }

    /// What that takes when nobody else comes between.
    pub(super) fn alone(&self, own: usize) -> Nanos {
        let mut took = [Nanos::ZERO; WARMING + ALONE];
        for took in &mut took {
            let before = clock::now();
            self.go_through(own);
            *took = clock::now().saturating_sub(before);
        }
        let took = &mut took[WARMING..];
        took.sort_unstable();
        took[ALONE / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_goes_through_every_line_of_its_own_and_of_nobody_else_s() {
        let sets = WorkingSets::new(3, 4_096).unwrap().unwrap();

        sets.go_through(1);

        let words = sets.memory.all();
        let touched: Vec<usize> = (0..words.len())
            .filter(|&at| words[at].load(Ordering::Relaxed) > 0)
            .collect();
        let lines: Vec<usize> = (512..1_024).step_by(8).collect();
        assert_eq!(touched, lines);
        assert!(WorkingSets::new(3, 0).unwrap().is_none());
    }
}
