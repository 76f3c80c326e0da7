//! Trace: a sequence of buffers, each with the events of one CPU. Buffers are read one
//! at a time, and their events are returned in time order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read, Seek, SeekFrom};

use crate::buffer::{BufferHeader, HEADER, MAX_BUFFER_BYTES};
use crate::error::EtlError;
use crate::event::{BufferItem, TraceEvent, first};
use crate::expand::expand;
use crate::header::TraceHeader;

/// Maximum number of buffers: 250 GB of 64 KB each.
const MAX_BUFFERS: usize = 4_000_000;
/// Maximum size of the buffers that are open at a time, bytes.
const MAX_OPEN_BYTES: usize = 512 << 20;
/// Maximum ratio of the decompressed size to the file size. Real traces stay below ten;
/// a higher ratio is malicious.
const MAX_EXPANSION: u64 = 256;
const ALWAYS_EXPANDED: u64 = 64 << 20;

/// Unreadable parts of a file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TraceDamage {
    /// Number of buffers that could not be read completely.
    pub buffers: u64,
    /// Number of bytes at the end of the file that belong to no buffer.
    pub bytes: u64,
    /// Offset and description of the first unreadable part.
    pub first: Option<(u64, &'static str)>,
}

impl TraceDamage {
    fn note(&mut self, offset: u64, what: &'static str) {
        self.first.get_or_insert((offset, what));
    }
}

/// Buffer that has events.
#[derive(Clone, Copy, Debug)]
struct BufferPlace {
    at: u64,
    header: BufferHeader,
    earliest: i64,
}

/// Trace with only an index in memory.
#[derive(Debug)]
pub struct Trace<R> {
    from: R,
    header: TraceHeader,
    places: Vec<BufferPlace>,
    damage: TraceDamage,
    packed: Vec<u8>,
}

/// Buffer whose events are being returned.
#[derive(Debug, Default)]
struct OpenBuffer {
    bytes: Vec<u8>,
    /// Time and position of each event, latest first.
    events: Vec<(i64, u32)>,
    cpu: u16,
}

impl OpenBuffer {
    fn size(&self) -> usize {
        self.bytes.capacity() + self.events.capacity() * size_of::<(i64, u32)>()
    }

    /// Finds the events. An event without a timestamp (a WPP message) gets the timestamp of the
    /// previous event, or of the first event that has one, or `otherwise`. Returns true if the
    /// whole buffer was read.
    fn find_events(&mut self, cpu: u16, otherwise: i64) -> bool {
        self.cpu = cpu;
        self.events.clear();
        let mut position = 0;
        let is_whole = loop {
            match first(self.bytes.get(position..).unwrap_or_default(), cpu) {
                BufferItem::End => break true,
                BufferItem::Damage => break false,
                BufferItem::Event(event, size) => {
                    // A position is below the largest buffer, so it fits.
                    self.events
                        .push((event.ticks, u32::try_from(position).unwrap_or(u32::MAX)));
                    position += size;
                }
            }
        };
        let mut timed = self.events.iter().map(|(ticks, _)| *ticks);
        let mut before = timed.find(|ticks| *ticks != 0).unwrap_or(otherwise);
        for (ticks, _) in &mut self.events {
            if *ticks == 0 {
                *ticks = before;
            }
            before = *ticks;
        }
        self.events.sort_by_key(|event| Reverse(*event));
        is_whole
    }
}

impl<R: Read + Seek> Trace<R> {
    /// Reads the positions of a file's buffers.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not a trace. Damage further on is counted.
    pub fn open(mut from: R) -> Result<Self, EtlError> {
        let io = |offset| move |source| EtlError::Io { at: offset, source };
        let length = from.seek(SeekFrom::End(0)).map_err(io(0))?;
        if length < HEADER as u64 {
            return Err(EtlError::Short { length });
        }
        let mut packed = Vec::new();
        let mut open = OpenBuffer::default();
        let first_one = header_at(&mut from, 0)?.ok_or(EtlError::Foreign)?;
        // Another file can start with plausible sizes.
        if u64::from(first_one.size) > length {
            return Err(EtlError::Foreign);
        }
        load(&mut from, 0, first_one, &mut packed, &mut open.bytes)?;
        let header = match first(&open.bytes, first_one.cpu) {
            BufferItem::Event(event, _) => TraceHeader::parse(&event).ok_or(EtlError::Header)?,
            BufferItem::End | BufferItem::Damage => return Err(EtlError::Header),
        };
        let mut trace = Self {
            from,
            header,
            places: Vec::new(),
            damage: TraceDamage::default(),
            packed,
        };
        trace.index(length)?;
        Ok(trace)
    }

    pub const fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// Returns the unreadable parts.
    pub const fn damage(&self) -> &TraceDamage {
        &self.damage
    }

    fn index(&mut self, length: u64) -> Result<(), EtlError> {
        let mut offset = 0;
        let mut expanded = 0_u64;
        let mut open = OpenBuffer::default();
        while offset < length {
            let left = length - offset;
            if left < HEADER as u64 {
                self.end_at(offset, length, "less than the header of a buffer");
                break;
            }
            let Some(header) = header_at(&mut self.from, offset)? else {
                self.end_at(offset, length, "not a buffer");
                break;
            };
            if u64::from(header.size) > left {
                self.end_at(offset, length, "the file ends within a buffer");
                break;
            }
            expanded = expanded.saturating_add(u64::from(header.filled));
            let too_long = expanded > length.saturating_mul(MAX_EXPANSION) + ALWAYS_EXPANDED;
            if too_long || self.places.len() >= MAX_BUFFERS {
                self.end_at(offset, length, "more than any trace holds");
                break;
            }
            self.look(offset, header, &mut open)?;
            offset += u64::from(header.size);
        }
        self.places
            .sort_by_key(|place| Reverse((place.earliest, place.at)));
        Ok(())
    }

    /// Records a buffer that has events.
    fn look(
        &mut self,
        offset: u64,
        header: BufferHeader,
        open: &mut OpenBuffer,
    ) -> Result<(), EtlError> {
        if !load(
            &mut self.from,
            offset,
            header,
            &mut self.packed,
            &mut open.bytes,
        )? {
            self.damage.buffers += 1;
            self.damage
                .note(offset, "a compressed buffer that is damaged");
            return Ok(());
        }
        let before = self.places.last().map_or(0, |place| place.earliest);
        if !open.find_events(header.cpu, before) {
            self.damage.buffers += 1;
            self.damage.note(offset, "a buffer with an invalid event");
        }
        if let Some((earliest, _)) = open.events.last() {
            self.places.push(BufferPlace {
                at: offset,
                header,
                earliest: *earliest,
            });
        }
        Ok(())
    }

    fn end_at(&mut self, offset: u64, length: u64, what: &'static str) {
        self.damage.bytes += length - offset;
        self.damage.note(offset, what);
    }

    /// Passes all events to `each` in time order; events of the same time in the order
    /// of the file. Needs memory only for the buffers that overlap in time: one per CPU
    /// in a real trace.
    ///
    /// # Errors
    ///
    /// If the file can no longer be read, or more buffers overlap than fit.
    pub fn visit(&mut self, each: impl FnMut(&TraceEvent<'_>)) -> Result<(), EtlError> {
        self.visit_holding(MAX_OPEN_BYTES, each)
    }

    /// Visits the events with a limit on the bytes of open buffers.
    fn visit_holding(
        &mut self,
        most: usize,
        mut each: impl FnMut(&TraceEvent<'_>),
    ) -> Result<(), EtlError> {
        let mut waiting = self.places.clone();
        let mut open: Vec<OpenBuffer> = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        let mut held = 0;
        // Time of the next event of an open buffer, position of the buffer in the file,
        // and its index among the open ones.
        let mut next: BinaryHeap<Reverse<(i64, u64, usize)>> = BinaryHeap::new();
        loop {
            let now = next.peek().map(|Reverse((ticks, _, _))| *ticks);
            let opens = waiting.last().map(|place| place.earliest);
            if opens.is_some_and(|opens| now.is_none_or(|now| opens <= now)) {
                let Some(place) = waiting.pop() else { break };
                let slot = free.pop().unwrap_or_else(|| {
                    open.push(OpenBuffer::default());
                    open.len() - 1
                });
                let buffer = &mut open[slot];
                let before = buffer.size();
                load(
                    &mut self.from,
                    place.at,
                    place.header,
                    &mut self.packed,
                    &mut buffer.bytes,
                )?;
                buffer.find_events(place.header.cpu, place.earliest);
                held = held - before + buffer.size();
                if held > most {
                    return Err(EtlError::Overlap { at: place.at, most });
                }
                if let Some((ticks, _)) = buffer.events.last() {
                    next.push(Reverse((*ticks, place.at, slot)));
                }
                continue;
            }
            let Some(Reverse((_, offset, slot))) = next.pop() else {
                break;
            };
            let buffer = &mut open[slot];
            if let Some((ticks, place)) = buffer.events.pop() {
                let rest = buffer.bytes.get(place as usize..).unwrap_or_default();
                if let BufferItem::Event(mut event, _) = first(rest, buffer.cpu) {
                    event.ticks = ticks;
                    each(&event);
                }
            }
            match buffer.events.last() {
                Some((ticks, _)) => next.push(Reverse((*ticks, offset, slot))),
                None => {
                    held -= buffer.size();
                    *buffer = OpenBuffer::default();
                    free.push(slot);
                }
            }
        }
        Ok(())
    }
}

/// Returns the header of the buffer at `offset`; `None` if it does not exist.
fn header_at<R: Read + Seek>(from: &mut R, offset: u64) -> Result<Option<BufferHeader>, EtlError> {
    let mut bytes = [0; HEADER];
    read_at(from, offset, &mut bytes)?;
    Ok(BufferHeader::parse(&bytes))
}

fn read_at<R: Read + Seek>(from: &mut R, offset: u64, to: &mut [u8]) -> Result<(), EtlError> {
    let io = |source| EtlError::Io { at: offset, source };
    from.seek(SeekFrom::Start(offset)).map_err(io)?;
    from.read_exact(to).map_err(io)
}

/// Reads and decompresses the events of a buffer into `to`. Returns false with an empty
/// `to` if that is not possible.
fn load<R: Read + Seek>(
    from: &mut R,
    offset: u64,
    header: BufferHeader,
    packed: &mut Vec<u8>,
    to: &mut Vec<u8>,
) -> Result<bool, EtlError> {
    let body = (header.size.min(MAX_BUFFER_BYTES) as usize).saturating_sub(HEADER);
    let start = offset + HEADER as u64;
    to.clear();
    if !header.is_compressed {
        to.resize(header.events().min(body), 0);
        read_at(from, start, to)?;
        return Ok(true);
    }
    packed.resize(body, 0);
    read_at(from, start, packed)?;
    let is_whole = expand(packed, header.events(), to).is_some();
    if !is_whole {
        to.clear();
    }
    Ok(is_whole)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use laggard_made::trace::{MadeEvent, MadeTrace};

    use super::*;

    const HZ: i64 = 10_000_000;
    /// Room for three test buffers with their lists of events, not for ten.
    const ROOM: usize = 16 << 10;

    /// Returns a hundred buffers of 100 events each. Each starts when `overlap` events
    /// of the previous one remain.
    fn made(overlap: i64) -> Trace<Cursor<Vec<u8>>> {
        let mut trace = MadeTrace::new(HZ, 0, 0);
        for number in 1..=100 {
            let begin = number * (100 - overlap);
            let events: Vec<MadeEvent> = (begin..begin + 100)
                .map(|ticks| MadeEvent::ready(ticks, 8))
                .collect();
            trace = trace.buffer(0, &events);
        }
        Trace::open(Cursor::new(trace.bytes())).unwrap()
    }

    #[test]
    fn only_overlapping_buffers_are_in_memory() {
        let (mut last, mut events) = (i64::MIN, 0);
        made(20)
            .visit_holding(ROOM, |event| {
                assert!(event.ticks >= last, "{} is before {last}", event.ticks);
                (last, events) = (event.ticks, events + 1);
            })
            .unwrap();

        assert_eq!(events, 1 + 100 * 100);
    }

    #[test]
    fn too_many_overlapping_buffers_are_refused_with_a_remedy() {
        let refused = made(99)
            .visit_holding(ROOM, |_| ())
            .unwrap_err()
            .to_string();

        assert!(
            refused.contains("buffers that overlap in time take more than"),
            "{refused}"
        );
        assert!(refused.contains("xperf -merge"), "{refused}");
    }
}
