//! Parquet files with a checksum, encoded and decoded in memory.
//!
//! Parquet has only an optional checksum that many writers omit, and a flipped bit in a number
//! would look like a measurement. The footer of each file therefore holds `laggard.crc32`: the
//! CRC-32 of the whole file in eight hexadecimal digits, computed with zeros in their place. It is
//! checked before decoding.

mod damage;
mod page;
mod read;
mod split;

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType,
    Int32Type, Int64Type,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

pub(crate) use damage::Damage;
pub use read::hush_damage;
pub(crate) use read::{MAX_ROWS, Rows, bad, column, guarded, index_of, open};
pub(crate) use split::SplitColumn;

const CHECKSUM_KEY: &str = "laggard.crc32";
const NO_CHECKSUM: &str = "00000000";
/// Rows of a page: a segment has one page per column.
const PAGE_ROWS: usize = 1 << 17;

/// Values of a column. If some rows are empty, `present` marks the other rows with 1, and `values`
/// contains only their values.
#[derive(Debug)]
pub(crate) enum Column {
    I32(Vec<i32>),
    I64(Vec<i64>),
    Bool(Vec<bool>),
    Text(Vec<ByteArray>),
    SomeI64 {
        values: Vec<i64>,
        present: Vec<i16>,
    },
    /// 16 bytes, big endian, for DECIMAL(38, 0).
    SomeDecimal {
        values: Vec<FixedLenByteArray>,
        present: Vec<i16>,
    },
}

/// Returns a complete Parquet file of one row group. `schema` is a Parquet message type
/// with the columns in their order; they are requested one at a time.
pub(crate) fn encode(schema: &str, columns: impl IntoIterator<Item = Column>) -> Result<Vec<u8>> {
    let schema = Arc::new(parse_message_type(schema)?);
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("laggard ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_data_page_size_limit(PAGE_ROWS * 16)
        .set_write_batch_size(PAGE_ROWS);
    for field in schema.get_fields() {
        let path = ColumnPath::from(field.name());
        properties = match (field.get_physical_type(), field.is_optional()) {
            (PhysicalType::INT32 | PhysicalType::INT64, false) => {
                properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
            }
            // Times are noise with rare large values. The cost of delta packing is the
            // largest of every 32 values; split bytes take a fifth less space.
            (PhysicalType::INT64, true) => {
                properties.set_column_encoding(path, Encoding::BYTE_STREAM_SPLIT)
            }
            (PhysicalType::BYTE_ARRAY, _) => properties.set_column_dictionary_enabled(path, true),
            _ => properties,
        };
    }
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()))?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        let mut out = group.next_column()?.ok_or_else(|| {
            ParquetError::General("the schema has fewer columns than the table".into())
        })?;
        write_column(&mut out, &column)?;
        out.close()?;
    }
    group.close()?;
    seal(writer)
}

/// Returns a complete file with its checksum.
fn seal(mut writer: SerializedFileWriter<Vec<u8>>) -> Result<Vec<u8>> {
    writer.append_key_value_metadata(KeyValue::new(CHECKSUM_KEY.into(), NO_CHECKSUM.to_owned()));
    let mut file = writer.into_inner()?;
    let place = checksum_place(&file)
        .ok_or_else(|| ParquetError::General("the footer has no space for a checksum".into()))?;
    let digits = format!("{:08x}", crc32fast::hash(&file));
    file[place..place + digits.len()].copy_from_slice(digits.as_bytes());
    Ok(file)
}

fn write_column(out: &mut SerializedColumnWriter<'_>, column: &Column) -> Result<()> {
    fn put<T: DataType>(
        out: &mut SerializedColumnWriter<'_>,
        values: &[T::T],
        present: Option<&[i16]>,
    ) -> Result<()> {
        out.typed::<T>()
            .write_batch(values, present, None)
            .map(|_| ())
    }
    match column {
        Column::I32(values) => put::<Int32Type>(out, values, None),
        Column::I64(values) => put::<Int64Type>(out, values, None),
        Column::Bool(values) => put::<BoolType>(out, values, None),
        Column::Text(values) => put::<ByteArrayType>(out, values, None),
        Column::SomeI64 { values, present } => put::<Int64Type>(out, values, Some(present)),
        Column::SomeDecimal { values, present } => {
            put::<FixedLenByteArrayType>(out, values, Some(present))
        }
    }
}

/// Returns the position of the checksum's digits: after the last occurrence of its key.
fn checksum_place(file: &[u8]) -> Option<usize> {
    let key = CHECKSUM_KEY.as_bytes();
    let key_start = file.windows(key.len()).rposition(|window| window == key)?;
    // One byte of field header and one of length are between key and value.
    let place = key_start + key.len() + 2;
    (place + NO_CHECKSUM.len() <= file.len()).then_some(place)
}
