//! Journal: rows that are not in a closed segment yet.
//!
//! A journal is a series of frames, each appended by one write: the magic `LGJ1`, the
//! payload's length and its CRC-32 (both u32, little endian), then the payload. A
//! payload is consecutive rows, with all numbers in LEB128:
//!
//! - flags: a bit for each stage of the row ([`bit_of`]), bit 9 for `missed`, bit 12
//!   for `censored`
//! - line, seq
//! - expiry, ns, minus the expiry of the previous row in this frame (zero for the
//!   first), zigzag coded
//! - the time of each stage of the row, ns since the previous stage
//!
//! A kill during a write leaves a torn last frame. The reader stops there and reports
//! the rest.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use laggard_model::{Activation, Batch, LineId, Nanos, STAGES, Stage};

use crate::WriteError;
use crate::folder::Folder;

const MAGIC: &[u8; 4] = b"LGJ1";
const HEADER_BYTES: usize = 12;
/// Maximum payload; a larger length is damage.
const MAX_PAYLOAD: usize = 16 << 20;
const MISSED: u64 = 1 << 9;
const CENSORED: u64 = 1 << 12;
/// Exclusive upper limit of flags: a bit for each stage, for `missed` and `censored`.
const FLAGS_END: u64 = 1 << (STAGES.len() + 2);

/// Returns the bit of a stage, in the order of their introduction: a bit never changes its meaning.
const fn bit_of(stage: Stage) -> u32 {
    match stage {
        Stage::Irq => 0,
        Stage::Expire => 1,
        Stage::Raise => 2,
        Stage::Softirq => 3,
        Stage::Signal => 4,
        Stage::Waking => 5,
        Stage::Running => 6,
        Stage::User => 7,
        Stage::Worker => 8,
        Stage::IrqThread => 10,
        Stage::Kthread => 11,
        Stage::IrqElsewhere => 13,
        Stage::Done => 14,
    }
}

/// Returns true if the first recordings did not have this stage and its column: its bit is above
/// the bit of `missed`, the last one at that time.
pub(crate) const fn came_later(stage: Stage) -> bool {
    1 << bit_of(stage) > MISSED
}

/// Journal that is being written.
#[derive(Debug)]
pub(crate) struct Journal {
    name: String,
    path: PathBuf,
    file: File,
    /// Length of all complete frames.
    good: u64,
    frame: Vec<u8>,
}

impl Journal {
    pub(crate) fn create(folder: &Folder, name: String) -> Result<Self, WriteError> {
        let file = folder.new_file(&name);
        Ok(Self {
            file: file.map_err(|error| folder.error(&name, error))?,
            path: folder.path().join(&name),
            name,
            good: 0,
            frame: Vec::new(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Appends bytes that are not a frame.
    pub(crate) fn tear(&self, bytes: u64) -> Result<(), WriteError> {
        self.file
            .set_len(self.good + bytes)
            .map_err(|error| WriteError::io(&self.path, error))
    }

    /// Appends rows of a batch as one frame. Returns the number of written bytes. After an error
    /// the journal is unchanged.
    pub(crate) fn append(&mut self, batch: &Batch, rows: Range<usize>) -> Result<u64, WriteError> {
        self.frame.clear();
        self.frame.extend_from_slice(MAGIC);
        self.frame.resize(HEADER_BYTES, 0);
        put_rows(&mut self.frame, batch, rows);
        let payload = &self.frame[HEADER_BYTES..];
        let length = u32::try_from(payload.len()).expect("the recorder bounds a frame's rows");
        let crc = crc32fast::hash(payload);
        self.frame[4..8].copy_from_slice(&length.to_le_bytes());
        self.frame[8..12].copy_from_slice(&crc.to_le_bytes());
        match self.file.write_all(&self.frame) {
            Ok(()) => {
                self.good += self.frame.len() as u64;
                Ok(self.frame.len() as u64)
            }
            Err(error) => {
                self.cut_torn_frame()
                    .map_err(|error| WriteError::io(&self.path, error))?;
                Err(WriteError::io(&self.path, error))
            }
        }
    }

    fn cut_torn_frame(&mut self) -> io::Result<()> {
        use std::io::{Seek, SeekFrom};
        self.file.set_len(self.good)?;
        self.file.seek(SeekFrom::Start(self.good)).map(|_| ())
    }

    /// Makes the appended rows survive a power cut.
    pub(crate) fn sync(&self) -> Result<(), WriteError> {
        self.file
            .sync_data()
            .map_err(|error| WriteError::io(&self.path, error))
    }
}

/// Content of a journal.
#[derive(Debug, Default)]
pub(crate) struct JournalRows {
    pub(crate) rows: Vec<Activation>,
    /// Offset where reading stopped, and the number of remaining bytes.
    pub(crate) torn: Option<(u64, u64)>,
    /// Whether there are more rows than the limit.
    pub(crate) is_cut: bool,
}

/// Reads the complete frames of a journal, up to `limit` rows.
pub(crate) fn decode(bytes: &[u8], limit: usize) -> JournalRows {
    let mut result = JournalRows::default();
    let mut offset = 0;
    while offset < bytes.len() {
        let Some(length) = frame_rows(&bytes[offset..], &mut result.rows, limit) else {
            result.torn = Some((offset as u64, (bytes.len() - offset) as u64));
            break;
        };
        if result.rows.len() > limit {
            result.rows.truncate(limit);
            result.is_cut = true;
            break;
        }
        offset += length;
    }
    result
}

/// Adds the rows of a frame, or none. Returns the length of the frame. Beyond `limit`
/// rows in all, only one more is added.
fn frame_rows(bytes: &[u8], rows: &mut Vec<Activation>, limit: usize) -> Option<usize> {
    let header = bytes.get(..HEADER_BYTES)?;
    let word = |start: usize| {
        u32::from_le_bytes([
            header[start],
            header[start + 1],
            header[start + 2],
            header[start + 3],
        ])
    };
    let length = usize::try_from(word(4)).ok()?;
    if &header[..4] != MAGIC || length > MAX_PAYLOAD {
        return None;
    }
    let payload = bytes.get(HEADER_BYTES..HEADER_BYTES + length)?;
    if crc32fast::hash(payload) != word(8) {
        return None;
    }
    let (before, mut rest, mut expiry) = (rows.len(), payload, 0);
    while !rest.is_empty() && rows.len() <= limit {
        let Some(row) = take_row(&mut rest, expiry) else {
            rows.truncate(before);
            return None;
        };
        expiry = row.expiry.ns();
        rows.push(row);
    }
    Some(HEADER_BYTES + length)
}

/// Writes rows of a batch. Most columns of steps are empty, and only the others are examined per row.
fn put_rows(out: &mut Vec<u8>, batch: &Batch, rows: Range<usize>) {
    let columns: Vec<(u64, &[u64])> = STAGES
        .into_iter()
        .zip(&batch.step_ns)
        .filter(|(_, steps)| !steps.is_empty())
        .map(|(stage, steps)| (1 << bit_of(stage), &steps[..]))
        .collect();
    let mut expiry_before = 0;
    for row in rows {
        let missed = u64::from(batch.missed[row]) * MISSED;
        let censored = u64::from(batch.censored[row]) * CENSORED;
        let present = columns
            .iter()
            .filter(|(_, steps)| steps[row] != Batch::ABSENT);
        let flags = present.clone().fold(0, |flags, (bit, _)| flags | bit);
        put_number(out, flags | missed | censored);
        put_number(out, batch.line[row].0.into());
        put_number(out, batch.seq[row]);
        let expiry = batch.expiry_ns[row];
        let ahead = expiry.wrapping_sub(expiry_before).cast_signed();
        put_number(out, ((ahead << 1) ^ (ahead >> 63)).cast_unsigned());
        present.for_each(|(_, steps)| put_number(out, steps[row]));
        expiry_before = expiry;
    }
}

fn take_row(bytes: &mut &[u8], expiry_before: u64) -> Option<Activation> {
    let flags = take_number(bytes)?;
    if flags >= FLAGS_END {
        return None;
    }
    let line = LineId(u16::try_from(take_number(bytes)?).ok()?);
    let seq = take_number(bytes)?;
    let zigzag = take_number(bytes)?;
    let ahead = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
    let mut steps = [None; STAGES.len()];
    for (stage, step) in STAGES.into_iter().zip(&mut steps) {
        if flags >> bit_of(stage) & 1 == 1 {
            *step = Some(Nanos::from_ns(take_number(bytes)?)).filter(|ns| ns.ns() != Batch::ABSENT);
        }
    }
    Some(Activation {
        line,
        seq,
        expiry: Nanos::from_ns(expiry_before.wrapping_add(ahead)),
        missed: flags & MISSED != 0,
        censored: flags & CENSORED != 0,
        steps,
    })
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_of_the_first_recordings_never_change() {
        let first = STAGES.into_iter().filter(|&stage| !came_later(stage));

        let names: Vec<&str> = first.map(Stage::name).collect();
        assert_eq!(
            names.join(" "),
            "irq expire raise softirq signal waking running user worker"
        );
    }

    #[test]
    fn row_of_an_earlier_version_keeps_its_meaning() {
        // Missed, with stage worker; line 1, seq 2, expiry 3, 4 ns late.
        let flags = 1_u64 << 9 | 1 << 8;
        let mut bytes = Vec::new();
        for number in [flags, 1, 2, 3 << 1, 4] {
            put_number(&mut bytes, number);
        }

        let row = take_row(&mut &bytes[..], 0).unwrap();

        assert!(row.missed && !row.censored);
        assert_eq!(
            (row.line, row.seq, row.expiry),
            (LineId(1), 2, Nanos::from_ns(3))
        );
        assert_eq!(row.until(Stage::Worker), Some(Nanos::from_ns(4)));
        assert_eq!(row.steps.iter().flatten().count(), 1);
    }

    #[test]
    fn flags_share_no_bit() {
        let mut bits: Vec<u32> = STAGES.into_iter().map(bit_of).collect();
        bits.extend([MISSED.ilog2(), CENSORED.ilog2()]);
        bits.sort_unstable();

        let count = u32::try_from(bits.len()).unwrap();
        assert_eq!(bits, (0..count).collect::<Vec<u32>>());
        assert_eq!(FLAGS_END, 1 << count);
    }
}
