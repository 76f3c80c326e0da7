//! One ring, read from outside.
//!
//! What lies in such a file is whatever the program wrote: it is copied, not mapped, so
//! that one that is cut short under our hands is an error of reading.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use laggard_marks::layout;
use laggard_model::{MarkKind, Nanos, ThreadMark};

use super::find::HeldRing;
use super::threads::Markers;
use crate::linux::clock;

/// A ring has no more marks than that: 16 times those of our own.
const MOST_SLOTS: u32 = 1 << 17;
/// So many are copied at a time.
const AT_A_TIME: u64 = 4_096;

#[derive(Debug)]
pub(super) struct MarkRing {
    file: File,
    slots: u32,
    read: u64,
    /// Marks that were overwritten before they were read, or are none.
    lost: u64,
    pub(super) markers: Markers,
}

impl MarkRing {
    /// Opens it, and says that somebody listens; `None`: it is not made whole yet.
    ///
    /// # Errors
    /// Where it cannot be opened, or is none that is known.
    pub(super) fn open(held: &HeldRing) -> io::Result<Option<Self>> {
        let file = held.open()?;
        let mut head = [0; layout::RING_AT];
        if file.read_exact_at(&mut head, 0).is_err() || head[..8] != layout::MAGIC {
            return Ok(None);
        }
        let slots = word(&head, layout::SLOTS_AT);
        let is_possible = slots.is_power_of_two() && slots <= MOST_SLOTS;
        let is_known = word(&head, layout::VERSION_AT) == layout::VERSION;
        let bytes = file.metadata()?.len();
        if !is_possible || !is_known || bytes < layout::bytes(slots) as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let ring = Self {
            file,
            slots,
            read: long(&head, layout::NEXT_AT),
            lost: 0,
            markers: Markers::new(held.id),
        };
        ring.listen(1);
        Ok(Some(ring))
    }

    pub(super) fn listen(&self, word: u32) {
        let at = layout::LISTENING_AT as u64;
        // Who sealed it against writing, or cut it short, is not heard.
        let _ = self.file.write_all_at(&word.to_ne_bytes(), at);
    }

    /// Appends what came since; how many were lost.
    pub(super) fn read(&mut self, now: Nanos, into: &mut Vec<ThreadMark>) -> u64 {
        let before = self.lost;
        self.markers.renew(now);
        // Another who listened may have ended, and said so.
        self.listen(1);
        let mut head = [0; layout::RING_AT];
        if self.file.read_exact_at(&mut head, 0).is_ok() {
            self.read_to(long(&head, layout::NEXT_AT), into);
        }
        self.lost.saturating_sub(before)
    }

    fn read_to(&mut self, next: u64, into: &mut Vec<ThreadMark>) {
        if next < self.read {
            // No program counts down: what it counted meanwhile nobody knows.
            self.read = next;
            return self.lose(1);
        }
        let room = u64::from(self.slots);
        let first = self.read.max(next.saturating_sub(room));
        self.lose(first - self.read);
        self.read = first;
        while self.read < next {
            // To the end of the ring at most.
            let slot = self.read % room;
            let count = (next - self.read).min(room - slot).min(AT_A_TIME);
            let Some((marks, again)) = self.copied(slot, count) else {
                self.lose(next - self.read);
                self.read = next;
                return;
            };
            let now = clock::now();
            let both = marks
                .chunks(layout::MARK_BYTES)
                .zip(again.chunks(layout::MARK_BYTES));
            for (mark, again) in both {
                match long(mark, 0) {
                    // Begun, and not written yet: it is waited for, as long as others do
                    // not fill the ring meanwhile.
                    0 if next - self.read <= room / 2 => return,
                    whole if whole == self.read + 1 && mark == again => {
                        match self.mark(mark, now) {
                            Some(mark) => into.push(mark),
                            None => self.lose(1),
                        }
                    }
                    _ => self.lose(1),
                }
                self.read += 1;
            }
        }
    }

    /// Twice: what is written meanwhile differs. `None`: it was cut short.
    fn copied(&self, slot: u64, count: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let length = usize::try_from(count * layout::MARK_BYTES as u64).ok()?;
        let at = layout::RING_AT as u64 + slot * layout::MARK_BYTES as u64;
        let (mut marks, mut again) = (vec![0; length], vec![0; length]);
        let copied = self.file.read_exact_at(&mut marks, at);
        let copied = copied.and(self.file.read_exact_at(&mut again, at));
        copied.ok().map(|()| (marks, again))
    }

    /// What a ring says may be anything.
    const fn lose(&mut self, marks: u64) {
        self.lost = self.lost.saturating_add(marks);
    }

    /// What a mark says; `None`: it is none that is known, or of what has not been yet.
    fn mark(&mut self, mark: &[u8], now: Nanos) -> Option<ThreadMark> {
        let kind = match word(mark, 28) {
            layout::BEGIN => MarkKind::Begin,
            layout::END => MarkKind::End,
            _ => return None,
        };
        let at = Nanos::from_ns(long(mark, 8));
        let marker = self.markers.of(word(mark, 24)).filter(|_| at <= now)?;
        Some(ThreadMark {
            process: marker.process,
            thread: marker.thread,
            at,
            number: long(mark, 16),
            kind,
            lost_before: self.lost,
        })
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(word)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(long)
}
