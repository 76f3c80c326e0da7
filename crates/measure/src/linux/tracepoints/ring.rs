//! Ring of event records, which the kernel fills and this process empties.

use std::ffi::CString;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::{Cpu, Nanos, Tid};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::super::perf::{open_switches, open_tracepoint};

/// `PERF_RECORD_LOST`, `PERF_RECORD_SAMPLE` and `PERF_RECORD_SWITCH`.
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
const RECORD_SWITCH: u32 = 14;
/// Bit of a switch record: the thread was switched out (`PERF_RECORD_MISC_SWITCH_OUT`).
const SWITCH_OUT: u16 = 1 << 13;
/// Offsets of `data_head` and `data_tail` in `struct perf_event_mmap_page`, which other fields
/// never move.
const HEAD_OFFSET: usize = 1024;
const TAIL_OFFSET: usize = 1032;
/// Bytes of `struct perf_event_header`.
const HEADER_BYTES: usize = 8;

/// Requests of `linux/perf_event.h`.
const ENABLE: libc::Ioctl = libc::_IO(PERF, 0);
const SET_OUTPUT: libc::Ioctl = libc::_IO(PERF, 5);
const SET_FILTER: libc::Ioctl = libc::_IOW::<*const libc::c_char>(PERF, 6);
const PERF: u32 = b'$' as u32;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RingRecord<'a> {
    /// Data of a tracepoint.
    Event(Nanos, &'a [u8]),
    /// Switch to the thread.
    SwitchIn(Nanos),
    /// Events that found no room before this time.
    Lost(Nanos, u64),
}

/// Performance events with a common ring: of one CPU, or of one thread.
#[derive(Debug)]
pub(super) struct EventRing {
    events: Vec<OwnedFd>,
    pages: NonNull<u8>,
    bytes: NonZeroUsize,
    page_bytes: usize,
}

// SAFETY: the mapping belongs to this value, and only its owner reads it.
unsafe impl Send for EventRing {}

/// Returns the size of a ring of at least `bytes`: a power of two, and at least a page.
fn ring_bytes(bytes: usize) -> (usize, usize) {
    let page_bytes = laggard_files::page_bytes();
    (bytes.next_power_of_two().max(page_bytes), page_bytes)
}

impl EventRing {
    /// Opens these tracepoints of a CPU, each with its filter (empty: none), with a ring of at
    /// least `bytes`. No event is recorded before [`Self::enable`].
    pub(super) fn of_cpu(
        cpu: Cpu,
        tracepoints: &[(u16, String)],
        bytes: usize,
    ) -> io::Result<Self> {
        let (data, _) = ring_bytes(bytes);
        // laggard polls: only a full ring wakes.
        let wakeup = u32::try_from(data).unwrap_or(u32::MAX);
        let mut events = Vec::new();
        for (id, filter) in tracepoints {
            let event = open_tracepoint(*id, cpu, wakeup)?;
            if !filter.is_empty() {
                let filter = CString::new(filter.as_str())?;
                // SAFETY: the descriptor is an event's, and the text ends in a zero.
                check(unsafe { libc::ioctl(event.as_raw_fd(), SET_FILTER, filter.as_ptr()) })?;
            }
            events.push(event);
        }
        Self::new(events, data)
    }

    /// Opens the switches of a thread of this process, with a ring of at least `bytes`.
    pub(super) fn of_thread(tid: Tid, bytes: usize) -> io::Result<Self> {
        let (data, _) = ring_bytes(bytes);
        let wakeup = u32::try_from(data).unwrap_or(u32::MAX);
        Self::new(vec![open_switches(tid, wakeup)?], data)
    }

    /// Maps a ring of `data` bytes for these events, all of one CPU or one thread.
    fn new(events: Vec<OwnedFd>, data: usize) -> io::Result<Self> {
        let (data, page_bytes) = ring_bytes(data);
        let first = events.first().ok_or(io::ErrorKind::InvalidInput)?;
        let bytes = NonZeroUsize::new(page_bytes + data).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address that the kernel chooses does not overlap another.
        let pages = unsafe {
            mmap(
                None,
                bytes,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                first.as_fd(),
                0,
            )
        }?;
        let ring = Self {
            pages: pages.cast(),
            bytes,
            page_bytes,
            events,
        };
        let output = ring.events[0].as_raw_fd();
        for event in &ring.events[1..] {
            // SAFETY: both descriptors are events of the same CPU.
            check(unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, output) })?;
        }
        Ok(ring)
    }

    /// Starts to record.
    pub(super) fn enable(&self) -> io::Result<()> {
        for event in &self.events {
            // SAFETY: the descriptor is an event's.
            check(unsafe { libc::ioctl(event.as_raw_fd(), ENABLE, 0) })?;
        }
        Ok(())
    }

    /// Passes on all records, and makes room for new ones. `buffer` keeps its capacity.
    pub(super) fn read(&self, buffer: &mut Vec<u8>, mut take: impl FnMut(RingRecord<'_>)) {
        let head = self.counter(HEAD_OFFSET).load(Ordering::Acquire);
        let tail = self.counter(TAIL_OFFSET).load(Ordering::Relaxed);
        self.copy(tail, head, buffer);
        self.counter(TAIL_OFFSET).store(head, Ordering::Release);
        let mut rest = buffer.as_slice();
        while let Some((record, after)) = next_record(rest) {
            if let Some(record) = record {
                take(record);
            }
            rest = after;
        }
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped while `self` lives, the offset is aligned and in that
        // page, and the kernel accesses the counter atomically, too.
        unsafe { &*self.pages.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Copies the bytes from position `tail` to `head`, which the kernel does not write until the
    /// tail moves.
    fn copy(&self, tail: u64, head: u64, into: &mut Vec<u8>) {
        let room = self.bytes.get() - self.page_bytes;
        let place = |position: u64| usize::try_from(position % room as u64).unwrap_or(0);
        let length = usize::try_from(head.saturating_sub(tail))
            .unwrap_or(0)
            .min(room);
        let first = length.min(room - place(tail));
        into.clear();
        for (from, bytes) in [(place(tail), first), (0, length - first)] {
            // SAFETY: the range is within the data pages, which are mapped while `self` lives.
            into.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.pages.as_ptr().add(self.page_bytes + from), bytes)
            });
        }
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for EventRing {
    fn drop(&mut self) {
        // SAFETY: `open` mapped this length, and no borrow is left. If the call fails, the memory
        // stays mapped, which is harmless.
        let _ = unsafe { munmap(self.pages.cast(), self.bytes.get()) };
    }
}

/// Splits the first record off. `None` inside: a record of another kind.
fn next_record(bytes: &[u8]) -> Option<(Option<RingRecord<'_>>, &[u8])> {
    let long = |place: usize| {
        let bytes = bytes.get(place..place + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    let kind = u32::from_ne_bytes(*bytes.first_chunk()?);
    let flags = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let length = usize::from(u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?));
    if length < HEADER_BYTES || length > bytes.len() {
        return None;
    }
    let record = match kind {
        RECORD_SAMPLE => {
            let raw = bytes.get(HEADER_BYTES + 8..length)?;
            let size = usize::try_from(u32::from_ne_bytes(*raw.first_chunk()?)).ok()?;
            let time = Nanos::from_ns(long(HEADER_BYTES)?);
            raw.get(4..4 + size)
                .map(|data| RingRecord::Event(time, data))
        }
        RECORD_LOST => {
            // Identifier, number, time.
            let time = Nanos::from_ns(long(HEADER_BYTES + 16)?);
            Some(RingRecord::Lost(time, long(HEADER_BYTES + 8)?))
        }
        RECORD_SWITCH if flags & SWITCH_OUT == 0 => {
            Some(RingRecord::SwitchIn(Nanos::from_ns(long(HEADER_BYTES)?)))
        }
        _ => None,
    };
    Some((record, &bytes[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(HEADER_BYTES + content.len()).unwrap();
        let mut record = kind.to_ne_bytes().to_vec();
        record.extend([0, 0]);
        record.extend(length.to_ne_bytes());
        record.extend(content);
        record
    }

    #[test]
    fn records_are_split_and_other_kinds_are_skipped() {
        let mut sample = 1_000_u64.to_ne_bytes().to_vec();
        sample.extend(4_u32.to_ne_bytes());
        sample.extend([1, 2, 3, 4]);
        let lost = [9_u64, 17, 2_000].map(u64::to_ne_bytes).concat();
        let switch = |flags: u16, ns: u64| {
            let mut bytes = record(RECORD_SWITCH, &ns.to_ne_bytes());
            bytes[4..6].copy_from_slice(&flags.to_ne_bytes());
            bytes
        };
        let mut bytes = record(RECORD_SAMPLE, &sample);
        bytes.extend(record(5, &[0; 16]));
        bytes.extend(record(RECORD_LOST, &lost));
        bytes.extend(switch(SWITCH_OUT, 2_500));
        bytes.extend(switch(0, 3_000));

        let mut records = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some((record, after)) = next_record(rest) {
            records.extend(record);
            rest = after;
        }

        let event = RingRecord::Event(Nanos::from_us(1), &[1, 2, 3, 4]);
        let lost = RingRecord::Lost(Nanos::from_us(2), 17);
        assert_eq!(
            records,
            [event, lost, RingRecord::SwitchIn(Nanos::from_us(3))]
        );
    }

    #[test]
    fn damaged_length_ends_the_records() {
        for length in [0_u16, 7, 100] {
            let mut bytes = record(RECORD_SAMPLE, &[0; 32]);
            bytes[6..8].copy_from_slice(&length.to_ne_bytes());

            assert_eq!(next_record(&bytes), None, "{length}");
        }
    }
}
