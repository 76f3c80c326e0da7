//! Wakeups as one Parquet file, in row groups of bounded size.

use std::io::Write;
use std::sync::Arc;

use laggard_model::{Batch, Line};
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::rows::{BATCH_ROWS, Rows};
use super::{ExportError, Table, stage_columns};

const FIXED_COLUMNS: &str = "
    required int32 line;
    required int32 cpu;
    required binary service (UTF8);
    required binary route (UTF8);
    required int64 seq;
    required int64 expiry_ns;
    required int64 latency_ns;
    required boolean missed;
    required boolean censored;";

pub(super) struct ParquetTable<'a, W: Write + Send> {
    lines: &'a [Line],
    writer: SerializedFileWriter<W>,
    rows: Rows,
}

impl<'a, W: Write + Send> ParquetTable<'a, W> {
    pub(super) fn new(lines: &'a [Line], out: W) -> std::result::Result<Self, ExportError> {
        let stages: String = stage_columns()
            .map(|name| format!("optional int64 {name}; "))
            .collect();
        let schema = parse_message_type(&format!(
            "message activations {{ {FIXED_COLUMNS} {stages} }}"
        ))?;
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("laggard ", env!("CARGO_PKG_VERSION")).into())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_dictionary_enabled(false);
        for field in schema.get_fields() {
            let path = ColumnPath::from(field.name());
            properties = match field.get_physical_type() {
                Type::BYTE_ARRAY => properties.set_column_dictionary_enabled(path, true),
                Type::INT32 | Type::INT64 => {
                    properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
                }
                _ => properties,
            };
        }
        Ok(Self {
            lines,
            writer: SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))?,
            rows: Rows::default(),
        })
    }

    fn write_group(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let mut group = self.writer.next_row_group()?;
        let out = &mut group;
        put::<Int32Type, W>(out, &rows.line, None)?;
        put::<Int32Type, W>(out, &rows.cpu, None)?;
        put::<ByteArrayType, W>(out, &texts(&rows.service), None)?;
        put::<ByteArrayType, W>(out, &texts(&rows.route), None)?;
        put::<Int64Type, W>(out, &rows.seq, None)?;
        put::<Int64Type, W>(out, &rows.expiry, None)?;
        put::<Int64Type, W>(out, &rows.latency, None)?;
        put::<BoolType, W>(out, &rows.missed, None)?;
        put::<BoolType, W>(out, &rows.censored, None)?;
        for steps in &rows.steps {
            let values: Vec<i64> = steps.iter().copied().flatten().collect();
            let present: Vec<i16> = steps.iter().map(|step| step.is_some().into()).collect();
            put::<Int64Type, W>(out, &values, Some(&present))?;
        }
        group.close()?;
        // Completed batches are written immediately.
        self.writer.flush()?;
        Ok(())
    }
}

fn texts(texts: &[String]) -> Vec<ByteArray> {
    texts.iter().map(|text| text.as_str().into()).collect()
}

fn put<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    present: Option<&[i16]>,
) -> Result<()> {
    let mut column = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("the schema has fewer columns than a row".into()))?;
    column.typed::<T>().write_batch(values, present, None)?;
    column.close()
}

impl<W: Write + Send> Table for ParquetTable<'_, W> {
    fn add(&mut self, batch: &Batch) -> std::result::Result<(), ExportError> {
        for row in 0..batch.len() {
            let line = &self.lines[usize::from(batch.line[row].0)];
            self.rows.add(batch, row, line);
            if self.rows.line.len() == BATCH_ROWS {
                self.write_group()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> std::result::Result<(), ExportError> {
        if !self.rows.line.is_empty() {
            self.write_group()?;
        }
        self.writer.close()?;
        Ok(())
    }
}
