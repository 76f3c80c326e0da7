//! A trace: buffers in a row, each with the events of one CPU. They are read
//! one at a time, and their events handed out in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read, Seek, SeekFrom};

use crate::buffer::{BufferHeader, HEADER, LARGEST};
use crate::error::EtlError;
use crate::event::{BufferItem, TraceEvent, first};
use crate::expand::expand;
use crate::header::TraceHeader;

/// Most buffers that are looked at: 250 GB of 64 KB each.
const MOST_BUFFERS: usize = 4_000_000;
/// Most bytes of buffers that are open at a time.
const MOST_OPEN: usize = 512 << 20;
/// How much longer than the file all that it was compressed from may be. Real
/// traces: less than ten times; beyond this it was made to take for ever.
const MOST_EXPANDED: u64 = 256;
const ALWAYS_EXPANDED: u64 = 64 << 20;

/// What of a file could not be read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TraceDamage {
    /// Buffers that could not be read whole.
    pub buffers: u64,
    /// Bytes at the end of the file that belong to no buffer.
    pub bytes: u64,
    /// Where the first of it is, bytes from the beginning, and what is there.
    pub first: Option<(u64, &'static str)>,
}

impl TraceDamage {
    fn note(&mut self, at: u64, what: &'static str) {
        self.first.get_or_insert((at, what));
    }
}

/// A buffer that has events.
#[derive(Clone, Copy, Debug)]
struct BufferPlace {
    at: u64,
    header: BufferHeader,
    earliest: i64,
}

/// A trace of which only an index is in memory.
#[derive(Debug)]
pub struct Trace<R> {
    from: R,
    header: TraceHeader,
    places: Vec<BufferPlace>,
    damage: TraceDamage,
    packed: Vec<u8>,
}

/// A buffer whose events are being handed out.
#[derive(Debug, Default)]
struct OpenBuffer {
    bytes: Vec<u8>,
    /// When each event was, and where it begins; the latest first.
    events: Vec<(i64, u32)>,
    cpu: u16,
}

impl OpenBuffer {
    fn size(&self) -> usize {
        self.bytes.capacity() + self.events.capacity() * size_of::<(i64, u32)>()
    }

    /// Finds the events in what it holds. Some have no time of their own
    /// (messages of WPP): they go with what is before them, or with the first
    /// that has one, or, where none has, are of `otherwise`. Returns whether all
    /// of it was read.
    fn find_events(&mut self, cpu: u16, otherwise: i64) -> bool {
        self.cpu = cpu;
        self.events.clear();
        let mut at = 0;
        let is_whole = loop {
            match first(self.bytes.get(at..).unwrap_or_default(), cpu) {
                BufferItem::End => break true,
                BufferItem::Damage => break false,
                BufferItem::Event(event, size) => {
                    // A place is below the largest buffer, so that it fits.
                    self.events
                        .push((event.ticks, u32::try_from(at).unwrap_or(u32::MAX)));
                    at += size;
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
    /// Looks through a file, once, and remembers where its buffers are.
    ///
    /// # Errors
    ///
    /// It cannot be read, or it is no trace. Damage further on is counted.
    pub fn open(mut from: R) -> Result<Self, EtlError> {
        let io = |at| move |source| EtlError::Io { at, source };
        let length = from.seek(SeekFrom::End(0)).map_err(io(0))?;
        if length < HEADER as u64 {
            return Err(EtlError::Short { length });
        }
        let mut packed = Vec::new();
        let mut open = OpenBuffer::default();
        let first_one = header_at(&mut from, 0)?.ok_or(EtlError::Foreign)?;
        // A foreign file can begin with what looks like sizes.
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

    /// What it says of itself.
    pub const fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// What of the file could not be read.
    pub const fn damage(&self) -> &TraceDamage {
        &self.damage
    }

    fn index(&mut self, length: u64) -> Result<(), EtlError> {
        let mut at = 0;
        let mut expanded = 0_u64;
        let mut open = OpenBuffer::default();
        while at < length {
            let left = length - at;
            if left < HEADER as u64 {
                self.end_at(at, length, "less than the header of a buffer");
                break;
            }
            let Some(header) = header_at(&mut self.from, at)? else {
                self.end_at(at, length, "what is there is no buffer");
                break;
            };
            if u64::from(header.size) > left {
                self.end_at(at, length, "the file ends within a buffer");
                break;
            }
            expanded = expanded.saturating_add(u64::from(header.filled));
            let too_long = expanded > length.saturating_mul(MOST_EXPANDED) + ALWAYS_EXPANDED;
            if too_long || self.places.len() >= MOST_BUFFERS {
                self.end_at(at, length, "more than any trace holds");
                break;
            }
            self.look(at, header, &mut open)?;
            at += u64::from(header.size);
        }
        self.places
            .sort_by_key(|place| Reverse((place.earliest, place.at)));
        Ok(())
    }

    /// Remembers a buffer that has events.
    fn look(
        &mut self,
        at: u64,
        header: BufferHeader,
        open: &mut OpenBuffer,
    ) -> Result<(), EtlError> {
        if !load(
            &mut self.from,
            at,
            header,
            &mut self.packed,
            &mut open.bytes,
        )? {
            self.damage.buffers += 1;
            self.damage.note(at, "a compressed buffer that is damaged");
            return Ok(());
        }
        let before = self.places.last().map_or(0, |place| place.earliest);
        if !open.find_events(header.cpu, before) {
            self.damage.buffers += 1;
            self.damage
                .note(at, "a buffer with something that is no event");
        }
        if let Some((earliest, _)) = open.events.last() {
            self.places.push(BufferPlace {
                at,
                header,
                earliest: *earliest,
            });
        }
        Ok(())
    }

    fn end_at(&mut self, at: u64, length: u64, what: &'static str) {
        self.damage.bytes += length - at;
        self.damage.note(at, what);
    }

    /// Hands all events to `each`, in the order of time; those of one time in
    /// the order of the file. Takes no more memory than the buffers that
    /// overlap in time: one for each CPU, in a trace that nobody made up.
    ///
    /// # Errors
    ///
    /// The file cannot be read any more, or more buffers overlap than fit.
    pub fn visit(&mut self, each: impl FnMut(&TraceEvent<'_>)) -> Result<(), EtlError> {
        self.visit_holding(MOST_OPEN, each)
    }

    /// The same, with at most so many bytes of buffers in memory.
    fn visit_holding(
        &mut self,
        most: usize,
        mut each: impl FnMut(&TraceEvent<'_>),
    ) -> Result<(), EtlError> {
        let mut waiting = self.places.clone();
        let mut open: Vec<OpenBuffer> = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        let mut held = 0;
        // The time of the next event of an open buffer, the buffer's place in
        // the file, and its place among those that are open.
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
            let Some(Reverse((_, at, slot))) = next.pop() else {
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
                Some((ticks, _)) => next.push(Reverse((*ticks, at, slot))),
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

/// The header of the buffer at `at`; `None`: there is none.
fn header_at<R: Read + Seek>(from: &mut R, at: u64) -> Result<Option<BufferHeader>, EtlError> {
    let mut bytes = [0; HEADER];
    read_at(from, at, &mut bytes)?;
    Ok(BufferHeader::parse(&bytes))
}

fn read_at<R: Read + Seek>(from: &mut R, at: u64, to: &mut [u8]) -> Result<(), EtlError> {
    let io = |source| EtlError::Io { at, source };
    from.seek(SeekFrom::Start(at)).map_err(io)?;
    from.read_exact(to).map_err(io)
}

/// Reads the events of a buffer into `to`, expanded. Returns whether they could
/// be; where not, `to` is empty.
fn load<R: Read + Seek>(
    from: &mut R,
    at: u64,
    header: BufferHeader,
    packed: &mut Vec<u8>,
    to: &mut Vec<u8>,
) -> Result<bool, EtlError> {
    let body = (header.size.min(LARGEST) as usize).saturating_sub(HEADER);
    let at = at + HEADER as u64;
    to.clear();
    if !header.is_compressed {
        to.resize(header.events().min(body), 0);
        read_at(from, at, to)?;
        return Ok(true);
    }
    packed.resize(body, 0);
    read_at(from, at, packed)?;
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
    /// Room for three made buffers with their lists of events, not for ten.
    const ROOM: usize = 16 << 10;

    /// A hundred buffers of 100 events each, of which every one begins when so
    /// many events of the one before are left.
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
    fn only_buffers_that_overlap_in_time_are_in_memory() {
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
    fn more_buffers_at_a_time_than_fit_are_refused_with_what_to_do() {
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
