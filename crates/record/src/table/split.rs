//! Fast reading of an optional column of 64-bit numbers in the form that
//! [`super::encode`] writes: one page of version 1, with its bytes in eight streams
//! (parquet-format, `Encodings.md`, `BYTE_STREAM_SPLIT`).
//!
//! The general reader joins the streams byte by byte, which took a third of the time to
//! read a segment. [`SplitColumn::open`] returns `None` for any other form. The general
//! reader then reads the column and reports its damage.

use bytes::Bytes;
use parquet::basic::{Encoding, Type};
use parquet::column::page::Page;
use parquet::file::reader::RowGroupReader;

use super::MAX_ROWS;

/// Number of streams.
const STREAMS: usize = 8;

/// Consecutive rows that all have a value, or none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Run {
    rows: usize,
    is_present: bool,
}

/// Column with a position.
pub(crate) struct SplitColumn {
    /// The streams one after the other.
    streams: Bytes,
    /// Number of values, and so the length of a stream.
    values: usize,
    /// Number of low streams, after which all bytes are zero.
    width: usize,
    /// Rows from the position, the next run last.
    runs: Vec<Run>,
    /// Number of values before the position.
    position: usize,
}

impl SplitColumn {
    /// Opens column `index` of a row group.
    pub(crate) fn open(group: &dyn RowGroupReader, index: usize) -> Option<Self> {
        let rows = usize::try_from(group.metadata().num_rows()).ok()?;
        let column = group.metadata().column(index);
        let levels = column.column_descr();
        let is_optional = (levels.max_def_level(), levels.max_rep_level()) == (1, 0);
        if !is_optional || column.column_type() != Type::INT64 || rows > MAX_ROWS {
            return None;
        }
        let mut pages = group.get_column_page_reader(index).ok()?;
        let Page::DataPage {
            buf,
            num_values,
            encoding: Encoding::BYTE_STREAM_SPLIT,
            def_level_encoding: Encoding::RLE,
            ..
        } = pages.get_next_page().ok()??
        else {
            return None;
        };
        if usize::try_from(num_values).ok()? != rows || pages.get_next_page().ok()?.is_some() {
            return None;
        }
        let (length, content) = buf.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (levels, streams) = content.split_at_checked(length)?;
        let mut runs = runs(levels, rows)?;
        let present = runs.iter().filter(|run| run.is_present);
        let values = present.map(|run| run.rows).sum();
        if streams.len() != values * STREAMS {
            return None;
        }
        let is_used = |stream: &&[u8]| stream.iter().fold(0, |bits, byte| bits | byte) != 0;
        let each = (0..STREAMS).map(|number| &streams[number * values..(number + 1) * values]);
        let width = each.rev().skip_while(|stream| !is_used(stream)).count();
        runs.reverse();
        Some(Self {
            streams: buf.slice_ref(streams),
            values,
            width,
            runs,
            position: 0,
        })
    }

    /// Appends the values of the next `rows` rows, and `absent` for rows without one.
    /// Appends nothing if no row has a value. Returns whether the column had these rows.
    pub(crate) fn read(&mut self, rows: usize, absent: u64, values: &mut Vec<u64>) -> bool {
        let (start, mut left) = (values.len(), rows);
        let mut is_any = false;
        while left > 0 {
            let Some(run) = self.runs.last_mut() else {
                return false;
            };
            let taken = run.rows.min(left);
            let is_present = run.is_present;
            run.rows -= taken;
            left -= taken;
            if run.rows == 0 {
                self.runs.pop();
            }
            if is_present {
                is_any = true;
                self.join(taken, values);
            } else {
                values.resize(values.len() + taken, absent);
            }
        }
        if !is_any {
            values.truncate(start);
        }
        true
    }

    /// Appends the next `count` values.
    fn join(&mut self, count: usize, values: &mut Vec<u64>) {
        let streams: [&[u8]; STREAMS] = std::array::from_fn(|number| {
            let start = number * self.values + self.position;
            &self.streams[start..start + count]
        });
        self.position += count;
        match self.width {
            0..=2 => join_low::<2>(&streams, values),
            3 => join_low::<3>(&streams, values),
            4 => join_low::<4>(&streams, values),
            _ => join_low::<STREAMS>(&streams, values),
        }
    }
}

/// Appends the numbers of the first `WIDTH` streams, which have equal lengths.
fn join_low<const WIDTH: usize>(streams: &[&[u8]; STREAMS], values: &mut Vec<u64>) {
    let count = streams[0].len();
    let streams: [&[u8]; WIDTH] = std::array::from_fn(|number| &streams[number][..count]);
    let value = |place: usize| {
        let bytes = streams.iter().enumerate();
        bytes.fold(0, |value, (number, stream)| {
            value | u64::from(stream[place]) << (8 * number)
        })
    };
    values.extend((0..count).map(value));
}

/// Decodes which of `rows` rows have a value: levels of one bit as repeated and packed
/// bits (parquet-format, `Encodings.md`, `RLE`).
fn runs(mut levels: &[u8], rows: usize) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    let mut left = rows;
    let mut add = |rows: usize, is_present: bool, left: &mut usize| {
        let rows = rows.min(*left);
        *left -= rows;
        match runs.last_mut() {
            Some(last) if last.is_present == is_present => last.rows += rows,
            _ => runs.push(Run { rows, is_present }),
        }
    };
    while left > 0 {
        let head = usize::try_from(super::page::varint(&mut levels)?).ok()?;
        if head & 1 == 0 {
            let (&level, others) = levels.split_first()?;
            levels = others;
            if level > 1 || head == 0 {
                return None;
            }
            add(head >> 1, level == 1, &mut left);
            continue;
        }
        let (packed, others) = levels.split_at_checked(head >> 1)?;
        levels = others;
        for (byte, bit) in packed
            .iter()
            .flat_map(|byte| (0..8).map(move |bit| (byte, bit)))
        {
            if left > 0 {
                add(1, byte >> bit & 1 == 1, &mut left);
            }
        }
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rows: usize, is_present: bool) -> Run {
        Run { rows, is_present }
    }

    #[test]
    fn levels_are_repeated_and_packed() {
        // Ten rows with a value; then eight packed: the lowest bit first.
        let levels = [10 << 1, 1, 1 << 1 | 1, 0b1000_0011];

        assert_eq!(
            runs(&levels, 18),
            Some(vec![run(12, true), run(5, false), run(1, true)])
        );
        // The last levels can be more than the rows.
        assert_eq!(runs(&levels, 13), Some(vec![run(12, true), run(1, false)]));
        assert_eq!(runs(&[10 << 1, 1], 9), Some(vec![run(9, true)]));
    }

    #[test]
    fn levels_that_no_writer_writes_are_refused() {
        for levels in [
            &[][..],
            // No level, or one of two bits.
            &[11 << 1],
            &[11 << 1, 2],
            // No rows.
            &[0, 1, 11 << 1, 1],
            // No bits, or too few.
            &[2 << 1 | 1],
            &[2 << 1 | 1, 0xff],
            // Too few rows, or too large a number.
            &[10 << 1, 1],
            &[0xff; 11],
        ] {
            assert_eq!(runs(levels, 11), None, "{levels:?}");
        }
    }

    #[test]
    fn column_joins_its_streams_at_every_width() {
        for width in 0..=STREAMS {
            let numbers: Vec<u64> = (0..100_u64)
                .map(|number| {
                    let unused = u32::try_from(8 * (STREAMS - width)).unwrap();
                    (number * 0x0283_7491_7263_9187)
                        .checked_shr(unused)
                        .unwrap_or(0)
                })
                .collect();
            let byte = |stream: usize| {
                numbers
                    .iter()
                    .map(move |number| number.to_le_bytes()[stream])
            };
            let mut column = SplitColumn {
                streams: (0..STREAMS).flat_map(byte).collect(),
                values: numbers.len(),
                width,
                runs: vec![run(90, true), run(20, false), run(10, true)],
                position: 0,
            };
            let mut read = Vec::new();

            for rows in [7, 23, 50, 40] {
                assert!(column.read(rows, u64::MAX, &mut read));
            }

            let absent = [u64::MAX; 20];
            let expected = [&numbers[..10], &absent, &numbers[10..]].concat();
            assert_eq!(read, expected, "{width} streams");
            assert!(!column.read(1, u64::MAX, &mut read));
        }
    }

    #[test]
    fn rows_without_values_add_none() {
        let mut column = SplitColumn {
            streams: Bytes::from_static(&[7; 8]),
            values: 1,
            width: STREAMS,
            runs: vec![run(1, true), run(5, false)],
            position: 0,
        };
        let mut read = Vec::new();

        assert!(column.read(4, 0, &mut read));
        assert!(read.is_empty());
        assert!(column.read(2, 0, &mut read));
        assert_eq!(read, [0, 0x0707_0707_0707_0707]);
    }
}
