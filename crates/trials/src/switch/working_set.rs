//! Memory that each thread accesses after it gets the CPU. It waits for the part that other threads
//! have evicted from the caches.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::Nanos;

use crate::system::clock;
use crate::system::mapping::Mapped;
use laggard_measure::board::Memory as _;

/// Size of a cache line in bytes.
const LINE_BYTES: usize = 64;
/// Number of accesses of a thread to fill the caches.
const NR_WARM_UP: usize = 3;
const NR_ALONE: usize = 15;

/// Working sets of equal size, one per thread.
#[derive(Debug)]
pub(super) struct WorkingSets {
    memory: Mapped<AtomicU64>,
    words: usize,
}

impl WorkingSets {
    /// Creates the working sets; `None` if their size is zero.
    pub(super) fn new(threads: usize, bytes: u64) -> io::Result<Option<Self>> {
        let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
        let total_words = words.checked_mul(threads);
        match total_words.ok_or(io::ErrorKind::OutOfMemory)? {
            0 => Ok(None),
            total_words => Ok(Some(Self {
                memory: Mapped::anonymous(total_words)?,
                words,
            })),
        }
    }

    /// Accesses the working set of one thread: increments a number in each line.
    pub(super) fn go_through(&self, own: usize) {
        let words = &self.memory.all()[own * self.words..][..self.words];
        for word in words.iter().step_by(LINE_BYTES / size_of::<AtomicU64>()) {
            let next = word.load(Ordering::Relaxed).wrapping_add(1);
            word.store(next, Ordering::Relaxed);
        }
    }

    /// Returns the duration of this access without other threads in between.
    pub(super) fn alone(&self, own: usize) -> Nanos {
        let mut took = [Nanos::ZERO; NR_WARM_UP + NR_ALONE];
        for took in &mut took {
            let before = clock::now();
            self.go_through(own);
            *took = clock::now().saturating_sub(before);
        }
        let took = &mut took[NR_WARM_UP..];
        took.sort_unstable();
        took[NR_ALONE / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_accesses_every_line_of_its_own_working_set_only() {
        let sets = WorkingSets::new(3, 4_096).unwrap().unwrap();

        sets.go_through(1);

        let words = sets.memory.all();
        let touched: Vec<usize> = (0..words.len())
            .filter(|&index| words[index].load(Ordering::Relaxed) > 0)
            .collect();
        let lines: Vec<usize> = (512..1_024).step_by(8).collect();
        assert_eq!(touched, lines);
        assert!(WorkingSets::new(3, 0).unwrap().is_none());
    }
}
