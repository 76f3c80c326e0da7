//! Rings that BPF programs overwrite, read backwards from the newest record.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::{CpuList, Nanos};

use super::super::mapping::Mapped;
use super::record::{Entry, RingHead};
use crate::board::Memory as _;

/// Size in bytes of a word that is read at once.
const WORD_BYTES: usize = size_of::<u64>();

/// Maximum distance of neighbours in the wrong order: an interrupt may write after another program
/// reads the clock and before that program takes a place.
const MAX_DISORDER: u64 = 8;

/// Rings of records, one per CPU.
///
/// The kernel may write at any time. A record is therefore read word by word as atomics, and
/// dropped if it was overwritten during the read.
#[derive(Debug)]
pub(super) struct Rings<E> {
    heads: Mapped<RingHead>,
    records: Mapped<AtomicU64>,
    room: usize,
    entries: PhantomData<E>,
    /// Recorded CPUs in the order of their rings.
    cpus: CpuList,
}

#[derive(Debug)]
pub(super) struct RingRecords<E> {
    /// Records in the order of writing.
    pub(super) records: Vec<E>,
    /// Whether requested records had been overwritten.
    pub(super) overwritten: bool,
}

impl<E: Entry> Rings<E> {
    /// Number of words of a record.
    const WORDS: usize = E::BYTES / WORD_BYTES;
    const WHOLE: () =
        assert!(E::BYTES.is_multiple_of(WORD_BYTES) && E::TIME_AT.is_multiple_of(WORD_BYTES));

    /// Maps the two arrays and opens a ring for each of `cpus`.
    pub(super) fn new(
        heads: (BorrowedFd<'_>, usize),
        records: BorrowedFd<'_>,
        bits: u32,
        cpus: &CpuList,
    ) -> io::Result<Self> {
        let () = Self::WHOLE;
        let room = 1_usize << bits;
        let (heads, nr_heads) = heads;
        let rings = Self {
            heads: Mapped::new(heads, nr_heads)?,
            records: Mapped::new(records, cpus.len() * room * Self::WORDS)?,
            room,
            entries: PhantomData,
            cpus: cpus.clone(),
        };
        for (place, cpu) in cpus.as_slice().iter().enumerate() {
            let head = rings.head(cpu.0);
            let first = u32::try_from(place * room).map_err(io::Error::other)?;
            head.first.store(first, Ordering::Relaxed);
            head.recorded.store(1, Ordering::Release);
        }
        Ok(rings)
    }

    fn head(&self, cpu: u32) -> &RingHead {
        &self.heads.all()[cpu as usize]
    }

    /// Returns the total number of records written.
    pub(super) fn written(&self) -> u64 {
        let cpus = self.cpus.as_slice().iter();
        cpus.map(|cpu| self.head(cpu.0).count.load(Ordering::Relaxed))
            .sum()
    }

    /// Returns the total number of context switches that were not seen, at least.
    pub(super) fn unseen(&self) -> u64 {
        let cpus = self.cpus.as_slice().iter();
        cpus.map(|cpu| self.head(cpu.0).unseen.load(Ordering::Relaxed))
            .sum()
    }

    /// Returns the records of `cpu` before the time `until`, backwards until `wanted` returns
    /// false.
    pub(super) fn newest(
        &self,
        cpu: u32,
        until: Nanos,
        mut wanted: impl FnMut(&E) -> bool,
    ) -> RingRecords<E> {
        let Some(place) = self.cpus.as_slice().iter().position(|other| other.0 == cpu) else {
            return RingRecords {
                records: Vec::new(),
                overwritten: true,
            };
        };
        let ring =
            &self.records.all()[place * self.room * Self::WORDS..][..self.room * Self::WORDS];
        let room = self.room as u64;
        let count = self.head(cpu).count.load(Ordering::Acquire);
        #[allow(clippy::cast_possible_truncation, reason = "less than the room")]
        let words = |number: u64| &ring[(number % room) as usize * Self::WORDS..][..Self::WORDS];
        let time = |number: u64| words(number)[E::TIME_AT / WORD_BYTES].load(Ordering::Relaxed);
        let is_later = |number: u64| time(number) > until.ns();
        let oldest = count.saturating_sub(room);
        // A busy CPU overwrites some of the oldest records during the search.
        let end = first(oldest + room / 32..count, is_later);
        let newest = count.min(end + MAX_DISORDER);
        let mut records = Vec::new();
        let mut number = newest;
        let mut overwritten = count > room;
        while number > oldest {
            number -= 1;
            if is_later(number) {
                continue;
            }
            let words = words(number);
            let record = E::from_words(|place| words[place].load(Ordering::Relaxed));
            if !wanted(&record) {
                overwritten = false;
                break;
            }
            records.push((number, record));
        }
        // Records whose place the kernel reused during the read are invalid.
        let reused = self
            .head(cpu)
            .count
            .load(Ordering::Acquire)
            .saturating_sub(room);
        let nr_found = records.len();
        records.retain(|(number, _)| *number > reused || reused == 0);
        overwritten |= records.len() < nr_found;
        records.reverse();
        RingRecords {
            records: records.into_iter().map(|(_, record)| record).collect(),
            overwritten,
        }
    }
}

/// Returns the first number in `numbers` that makes `holds` true, or their end. Every later number
/// must also make it true.
fn first(numbers: std::ops::Range<u64>, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (numbers.start.min(numbers.end), numbers.end);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::reversed_empty_ranges, reason = "this case is tested")]
    fn first_is_the_end_if_none_matches() {
        let backwards = std::ops::Range { start: 9, end: 5 };
        for (numbers, from, expected) in
            [(5..9, 7, 7), (5..9, 2, 5), (5..9, 20, 9), (backwards, 0, 5)]
        {
            assert_eq!(
                first(numbers.clone(), |number| number >= from),
                expected,
                "for {from} in {numbers:?}"
            );
        }
    }
}
