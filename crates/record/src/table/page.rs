//! Check of the declared sizes of a file's pages, before decompression.
//!
//! A page's header declares a size, and the Parquet reader allocates and decompresses
//! it: 64 KB can become 2 GB. So the headers of all pages are read first, and none may
//! declare more than the values of its column take.
//!
//! A header is a struct in Thrift's compact protocol (parquet-format, `parquet.thrift`,
//! `PageHeader`; Thrift, `thrift-compact-protocol.md`).

use parquet::basic::Type;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::damage::Damage;

/// Maximum size of a page of at most [`super::PAGE_ROWS`] values.
const MAX_PAGE_BYTES: u64 = 8 << 20;
/// Space of a page in addition to its values: lengths, levels and dictionaries of short
/// columns.
const PAGE_OVERHEAD_BYTES: u64 = 1 << 16;
/// Maximum length of a name: services, routes and stages.
const MAX_NAME_BYTES: u64 = 64;

/// Refuses a file with a page that declares more than its column can take.
pub(super) fn check(file: &[u8], metadata: &ParquetMetaData) -> Result<(), Damage> {
    for group in metadata.row_groups() {
        let rows = u64::try_from(group.num_rows()).unwrap_or_default();
        for column in group.columns() {
            check_column(file, column, rows)?;
        }
    }
    Ok(())
}

fn check_column(file: &[u8], column: &ColumnChunkMetaData, rows: u64) -> Result<(), Damage> {
    let name = column.column_path().string();
    let limit = largest(column, rows);
    // `byte_range` panics on negative values.
    let from = column.dictionary_page_offset();
    let from = from.unwrap_or_else(|| column.data_page_offset());
    let length = column.compressed_size();
    let pages = usize::try_from(from).ok().zip(usize::try_from(length).ok());
    let pages = pages.and_then(|(from, length)| file.get(from..from.checked_add(length)?));
    let mut left = pages.ok_or_else(|| Damage::ColumnShort(name.clone()))?;
    while !left.is_empty() {
        let header = Header::read(&mut left).ok_or_else(|| {
            Damage::BadValue(format!("a page of column `{name}` without a header"))
        })?;
        let counts = [
            ("bytes", header.unpacked, limit),
            ("values", header.values, rows),
        ];
        for (part, claim, limit) in counts {
            if u64::try_from(claim).is_ok_and(|claim| claim <= limit) {
                continue;
            }
            return Err(Damage::BadValue(format!(
                "a page of column `{name}` that would unpack to {claim} {part}, more than the {limit} that {rows} rows can take"
            )));
        }
        let packed = usize::try_from(header.packed).ok();
        left = packed
            .and_then(|packed| left.get(packed..))
            .ok_or_else(|| Damage::ColumnShort(name.clone()))?;
    }
    Ok(())
}

/// Returns the maximum decompressed size of a page of a column, bytes.
fn largest(column: &ColumnChunkMetaData, rows: u64) -> u64 {
    let value = match column.column_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::BYTE_ARRAY => MAX_NAME_BYTES,
        Type::FIXED_LEN_BYTE_ARRAY => {
            u64::try_from(column.column_descr().type_length()).unwrap_or_default()
        }
    };
    // Twice, because packing of incompressible data needs a little extra space.
    let values = rows.saturating_mul(2 * value + 1);
    values
        .saturating_add(PAGE_OVERHEAD_BYTES)
        .min(MAX_PAGE_BYTES)
}

/// Fields of a page that are needed before decompression.
struct Header {
    /// Compressed and decompressed size, bytes.
    unpacked: i64,
    packed: i64,
    /// Number of values.
    values: i64,
}

/// Types of the compact protocol.
const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I32: u8 = 5;
const STRUCT: u8 = 12;

impl Header {
    /// Reads a header from the front of `bytes`: of a data page of version 1 or of a
    /// dictionary, as the writer creates them. Returns `None` for any other header.
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (mut unpacked, mut packed, mut values) = (None, None, None);
        each_field(bytes, |bytes, field, kind| match (field, kind) {
            (2, I32) => zigzag(bytes).map(|bytes| unpacked = Some(bytes)),
            (3, I32) => zigzag(bytes).map(|bytes| packed = Some(bytes)),
            // The type, and a checksum.
            (1 | 4, I32) => zigzag(bytes).map(|_| ()),
            // A data page, or a dictionary.
            (5 | 7, STRUCT) => each_field(bytes, |bytes, inner, kind| match (inner, kind) {
                (1, I32) => zigzag(bytes).map(|count| values = Some(count)),
                (2, I32) => zigzag(bytes).map(|_| ()),
                (3 | 4, I32) if field == 5 => zigzag(bytes).map(|_| ()),
                // Whether it is sorted: a bool is in its type.
                (3, TRUE | FALSE) if field == 7 => Some(()),
                _ => None,
            }),
            _ => None,
        })?;
        Some(Self {
            unpacked: unpacked?,
            packed: packed?,
            values: values?,
        })
    }
}

/// Reads a struct; `take` reads each field's value, by number and type. Fields must be
/// in order and unique, because readers differ in the treatment of duplicates.
fn each_field(
    bytes: &mut &[u8],
    mut take: impl FnMut(&mut &[u8], i64, u8) -> Option<()>,
) -> Option<()> {
    let mut field = 0;
    loop {
        let head = byte(bytes)?;
        if head == STOP {
            return Some(());
        }
        let next = match head >> 4 {
            0 => zigzag(bytes)?,
            ahead => field + i64::from(ahead),
        };
        if next <= field || next > i64::from(i16::MAX) {
            return None;
        }
        field = next;
        take(bytes, field, head & 0x0f)?;
    }
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

/// Reads an integer of up to 64 bits, seven per byte, lowest first.
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let next = byte(bytes)?;
        number |= u64::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Reads a number with its sign in the lowest bit.
fn zigzag(bytes: &mut &[u8]) -> Option<i64> {
    let number = varint(bytes)?;
    Some((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use laggard_model::{Backend, Clock, Cpu, Line, Manifest, Nanos, ProbePlan, Route, Service};
    use parquet::basic::{Compression, Encoding, ZstdLevel};
    use parquet::column::writer::ColumnCloseResult;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;

    use super::super::seal;
    use super::*;
    use crate::{Columns, Recorder, Recording};

    const ROWS: i64 = 10;

    #[test]
    fn column_that_starts_before_the_file_is_damage_without_a_panic() {
        let schema = parse_message_type("message m { required int64 a; }").unwrap();
        let schema = SchemaDescriptor::new(Arc::new(schema));
        for (from, length) in [(-1, 4), (4, -1), (i64::MIN, i64::MAX)] {
            let column = ColumnChunkMetaData::builder(schema.column(0))
                .set_data_page_offset(from)
                .set_total_compressed_size(length)
                .build()
                .unwrap();

            let checked = check_column(&[0; 16], &column, 1);

            assert!(
                matches!(checked, Err(Damage::ColumnShort(_))),
                "{from} {length}"
            );
        }
    }

    /// Appends a field of type i32, `ahead` numbers after the previous one.
    fn number(out: &mut Vec<u8>, ahead: u8, value: i32) {
        out.push(ahead << 4 | I32);
        let mut left = ((value << 1) ^ (value >> 31)).cast_unsigned();
        while left >= 0x80 {
            out.push((left & 0x7f) as u8 | 0x80);
            left >>= 7;
        }
        out.push(u8::try_from(left).unwrap());
    }

    /// Returns a page of type 0 (data) or 2 (dictionary) with these declared sizes.
    fn page(kind: i32, unpacked: i32, values: i32, packed: &[u8]) -> Vec<u8> {
        let mut page = Vec::new();
        for value in [kind, unpacked, i32::try_from(packed.len()).unwrap()] {
            number(&mut page, 1, value);
        }
        // From field 3 to 5 or 7; plain values, levels as runs.
        let (ahead, inner): (u8, &[i32]) = match kind {
            0 => (2, &[values, 0, 3, 3]),
            _ => (4, &[values, 0]),
        };
        page.push(ahead << 4 | STRUCT);
        inner.iter().for_each(|&value| number(&mut page, 1, value));
        page.extend([STOP, STOP]);
        page.extend(packed);
        page
    }

    /// Readers skip unknown fields, and could then disagree about the page.
    #[test]
    fn header_has_exactly_the_fields_of_its_kind() {
        const DATA: i64 = 5;
        const DICTIONARY: i64 = 7;
        const NUMBER: &[u8] = &[1 << 4 | I32, 0];
        const YES: &[u8] = &[1 << 4 | TRUE];
        const NO: &[u8] = &[1 << 4 | FALSE];
        for (kind, more, is_read) in [
            (DATA, &[NUMBER, NUMBER][..], true),
            (DATA, &[YES], false),
            (DATA, &[NO], false),
            (DATA, &[NUMBER, YES], false),
            (DICTIONARY, &[], true),
            (DICTIONARY, &[YES], true),
            (DICTIONARY, &[NO], true),
            (DICTIONARY, &[NUMBER], false),
            (DICTIONARY, &[YES, NUMBER], false),
        ] {
            let mut header = Vec::new();
            for value in [0, 8, 8] {
                number(&mut header, 1, value);
            }
            let ahead = u8::try_from(kind - 3).unwrap();
            header.push(ahead << 4 | STRUCT);
            for value in [1, 0] {
                number(&mut header, 1, value);
            }
            more.iter().for_each(|field| header.extend(*field));
            header.extend([STOP, STOP]);

            let read = Header::read(&mut &header[..]);

            assert_eq!(read.is_some(), is_read, "{kind} {more:?}");
        }
    }

    /// Returns zeros in a frame of zstd (RFC 8878, section 3.1.1): blocks of 128 KiB,
    /// each a repeated byte.
    fn zeros(blocks: usize) -> Vec<u8> {
        // No checksum, no size, a window of 128 KiB.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
        for block in 1..=blocks {
            let head = u32::from(block == blocks) | 1 << 1 | (128 << 10) << 3;
            frame.extend(&head.to_le_bytes()[..3]);
            frame.push(0);
        }
        frame
    }

    /// Returns a segment that has only `line`, in one chunk of these pages.
    fn segment(pages: Vec<u8>) -> Vec<u8> {
        let schema = parse_message_type("message samples { required int32 line; }").unwrap();
        let zstd = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(zstd).build();
        let mut writer =
            SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties)).unwrap();
        let column = writer.schema_descr().column(0);
        let length = i64::try_from(pages.len()).unwrap();
        let metadata = ColumnChunkMetaData::builder(column)
            .set_compression(zstd)
            .set_encodings(vec![Encoding::PLAIN])
            .set_num_values(ROWS)
            .set_total_compressed_size(length)
            .set_total_uncompressed_size(length)
            .set_data_page_offset(0)
            .build()
            .unwrap();
        let closed = ColumnCloseResult {
            bytes_written: pages.len() as u64,
            rows_written: ROWS.cast_unsigned(),
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        let mut group = writer.next_row_group().unwrap();
        group.append_column(&Bytes::from(pages), closed).unwrap();
        group.close().unwrap();
        seal(writer).unwrap()
    }

    /// Returns the number of rows of a recording with this segment, and its shortfalls.
    fn read(segment: &[u8]) -> (usize, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let line = Line::new(Cpu(0), Service::Other, Route::Direct);
        let clock = Clock::monotonic(Nanos::from_secs(1), String::new());
        let manifest = Manifest::new(Backend::Fake, ProbePlan::default(), clock, vec![line]);
        drop(Recorder::create(dir.path(), manifest).unwrap());
        std::fs::write(dir.path().join("samples/000001.parquet"), segment).unwrap();
        let recording = Recording::open(dir.path()).unwrap();
        let mut rows = 0;
        let read = recording.scan(Columns::default(), |batch| rows += batch.len());
        (rows, read.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn page_within_the_size_of_its_rows_is_read() {
        let packed = zstd::stream::encode_all(&[0_u8; 40][..], 1).unwrap();

        let (rows, messages) = read(&segment(page(0, 40, 10, &packed)));

        assert_eq!((rows, &messages[..]), (10, &[][..]));
    }

    #[test]
    fn page_that_would_expand_to_gigabytes_is_refused_by_its_header() {
        let bomb = segment(page(0, i32::MAX, 10, &zeros(1 << 14)));
        assert!(bomb.len() < 1 << 17, "{}", bomb.len());

        let (rows, messages) = read(&bomb);

        assert_eq!(rows, 0);
        assert_eq!(
            messages,
            [
                "`samples/000001.parquet` is damaged: it holds a page of column `line` that would unpack to 2147483647 bytes, more than the 65626 that 10 rows can take"
            ]
        );
    }

    #[test]
    fn dictionary_with_more_values_than_rows_is_refused_by_its_header() {
        let packed = zstd::stream::encode_all(&[0_u8; 40][..], 1).unwrap();
        let data = page(0, 40, 10, &packed);

        let (rows, messages) = read(&segment([page(2, 40, i32::MAX, &packed), data].concat()));

        assert_eq!(rows, 0);
        assert!(
            messages[0]
                .contains("would unpack to 2147483647 values, more than the 10 that 10 rows"),
            "{messages:?}"
        );
    }

    #[test]
    fn ambiguous_header_is_refused() {
        let whole = page(0, 40, 10, &[]);
        assert!(Header::read(&mut &whole[..]).is_some());
        // The size twice; a field back to 2 after 3; a size of another type; truncated.
        let mut twice = vec![0x15, 0, 0x15, 2, 0x05, 4, 9];
        twice.extend(&whole[4..]);
        let mut other = whole.clone();
        other[2] = 0x16;
        for header in [twice, other, whole[..whole.len() - 1].to_vec(), Vec::new()] {
            assert!(Header::read(&mut &header[..]).is_none(), "{header:?}");
        }
    }
}
