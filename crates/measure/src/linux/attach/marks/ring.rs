//! Reader of one ring.
//!
//! The content of the file is arbitrary, because another program writes it. laggard copies it
//! instead of mapping it: if the program truncates the file, the read fails, while access to a
//! mapping would raise SIGBUS.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use laggard_marks::layout;
use laggard_model::{MarkKind, Nanos, ThreadMark};

use super::find::HeldRing;
use super::threads::Markers;
use crate::linux::clock;

/// Maximum number of marks in a ring: 16 times the size of a ring of laggard-marks.
const MOST_SLOTS: u32 = 1 << 17;
/// Number of marks to copy at a time.
const AT_A_TIME: u64 = 4_096;

#[derive(Debug)]
pub(super) struct MarkRing {
    file: File,
    slots: u32,
    read: u64,
    /// Marks that were overwritten before they were read, or are invalid.
    lost: u64,
    pub(super) markers: Markers,
}

impl MarkRing {
    /// Opens the ring and sets its listening flag. Returns `None` if the program has not finished
    /// its initialization.
    ///
    /// # Errors
    /// If it cannot be opened, or its version is not supported.
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
        let offset = layout::LISTENING_AT as u64;
        // Fails if the program sealed or truncated the file. Then it receives no flag.
        let _ = self.file.write_all_at(&word.to_ne_bytes(), offset);
    }

    /// Appends the marks since the last call, and returns the number of lost ones.
    pub(super) fn read(&mut self, now: Nanos, into: &mut Vec<ThreadMark>) -> u64 {
        let before = self.lost;
        self.markers.renew(now);
        // Another listener may have ended and cleared the flag.
        self.listen(1);
        let mut head = [0; layout::RING_AT];
        if self.file.read_exact_at(&mut head, 0).is_ok() {
            self.read_to(long(&head, layout::NEXT_AT), into);
        }
        self.lost.saturating_sub(before)
    }

    fn read_to(&mut self, next: u64, into: &mut Vec<ThreadMark>) {
        if next < self.read {
            // The counter never decreases in a valid program, so the number of lost marks is
            // unknown.
            self.read = next;
            return self.lose(1);
        }
        let room = u64::from(self.slots);
        let first = self.read.max(next.saturating_sub(room));
        self.lose(first - self.read);
        self.read = first;
        while self.read < next {
            // Does not wrap around the end of the ring.
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
                    // The mark was started but is not complete. Wait for it, unless others have
                    // filled half of the ring.
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

    /// Copies the marks twice. Marks that change in between differ. Returns `None` if the file was
    /// truncated.
    fn copied(&self, slot: u64, count: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let length = usize::try_from(count * layout::MARK_BYTES as u64).ok()?;
        let offset = layout::RING_AT as u64 + slot * layout::MARK_BYTES as u64;
        let (mut marks, mut again) = (vec![0; length], vec![0; length]);
        let copied = self.file.read_exact_at(&mut marks, offset);
        let copied = copied.and(self.file.read_exact_at(&mut again, offset));
        copied.ok().map(|()| (marks, again))
    }

    /// Saturates, because the counter of a ring can have any value.
    const fn lose(&mut self, marks: u64) {
        self.lost = self.lost.saturating_add(marks);
    }

    /// Parses a mark. Returns `None` if its kind is unknown, its thread is unknown, or its time is
    /// in the future.
    fn mark(&mut self, mark: &[u8], now: Nanos) -> Option<ThreadMark> {
        let kind = match word(mark, 28) {
            layout::BEGIN => MarkKind::Begin,
            layout::END => MarkKind::End,
            _ => return None,
        };
        let time = Nanos::from_ns(long(mark, 8));
        let marker = self.markers.of(word(mark, 24)).filter(|_| time <= now)?;
        Some(ThreadMark {
            process: marker.process,
            thread: marker.thread,
            at: time,
            number: long(mark, 16),
            kind,
            lost_before: self.lost,
        })
    }
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(word)
}

fn long(bytes: &[u8], offset: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_ne_bytes(long)
}
