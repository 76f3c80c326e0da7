//! Per-CPU rings, read from the oldest record.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_bpf::value::Value as _;

use super::super::mapping::Mapped;
use super::record::shared::{AttachRecord, RingHead};
use crate::board::Memory as _;

const WORDS: usize = AttachRecord::BYTES / size_of::<u64>();

/// Rings of all CPUs. Only the BPF programs on a CPU write to its ring.
///
/// The number of a record is written last, and is zero while the record is written. A reader that
/// sees the same number before and after copying has a complete record.
#[derive(Debug)]
pub(super) struct AttachRings {
    heads: Mapped<RingHead>,
    records: Mapped<AtomicU64>,
    room: u64,
    /// Number of records of each CPU that were read or skipped.
    read: Vec<u64>,
    /// Records that were overwritten before they were read.
    pub(super) overwritten: u64,
}

impl AttachRings {
    /// Maps the two arrays and opens a ring for each CPU.
    pub(super) fn new(
        heads: BorrowedFd<'_>,
        records: BorrowedFd<'_>,
        cpus: usize,
        bits: u32,
    ) -> io::Result<Self> {
        let room = 1_usize << bits;
        let rings = Self {
            heads: Mapped::new(heads, cpus)?,
            records: Mapped::new(records, cpus * room * WORDS)?,
            room: room as u64,
            read: vec![0; cpus],
            overwritten: 0,
        };
        for (place, head) in rings.heads.all().iter().enumerate() {
            let first = u32::try_from(place * room).map_err(io::Error::other)?;
            head.first.store(first, Ordering::Relaxed);
            head.recorded.store(1, Ordering::Release);
        }
        Ok(rings)
    }

    /// Passes on the records since the last call.
    pub(super) fn read(&mut self, mut into: impl FnMut(&AttachRecord)) {
        for cpu in 0..self.read.len() {
            self.read_of(cpu, &mut into);
        }
    }

    fn read_of(&mut self, cpu: usize, into: &mut impl FnMut(&AttachRecord)) {
        let count = self.heads.all()[cpu].count.load(Ordering::Acquire);
        let mut next = self.read[cpu];
        if count - next > self.room {
            self.overwritten += count - self.room - next;
            next = count - self.room;
        }
        while next < count {
            match self.one(cpu, next) {
                Some(record) => into(&record),
                // The record is being written; the next call reads it.
                None if self.is_newest(cpu, next) => break,
                None => self.overwritten += 1,
            }
            next += 1;
        }
        self.read[cpu] = next;
    }

    /// Returns true if this place can still become record `number`.
    fn is_newest(&self, cpu: usize, number: u64) -> bool {
        self.heads.all()[cpu].count.load(Ordering::Acquire) - number <= self.room
    }

    /// Returns record `number` of a CPU, unless it is being written or was overwritten.
    fn one(&self, cpu: usize, number: u64) -> Option<AttachRecord> {
        #[allow(clippy::cast_possible_truncation, reason = "less than the room")]
        let place = cpu * self.room as usize + (number % self.room) as usize;
        let words = &self.records.all()[place * WORDS..][..WORDS];
        let is_it = || words[0].load(Ordering::Acquire) == number + 1;
        if !is_it() {
            return None;
        }
        let record = AttachRecord::from_words(|word| words[word].load(Ordering::Relaxed));
        std::sync::atomic::fence(Ordering::Acquire);
        is_it().then_some(record)
    }
}
