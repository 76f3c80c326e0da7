//! Wakeups as one Parquet file, in row groups of bounded size.

use std::io::Write;
use std::sync::Arc;

use laggard_model::{Batch, Line, STAGES};
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::{ExportError, Table, latency, stage_columns, steps};

/// Rows of a group: about 10 MB in memory, as numbers.
const GROUP_ROWS: usize = 65_536;

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
    group: Group,
}

/// Rows that are not written yet, per column.
#[derive(Default)]
struct Group {
    line: Vec<i32>,
    cpu: Vec<i32>,
    service: Vec<ByteArray>,
    route: Vec<ByteArray>,
    seq: Vec<i64>,
    expiry: Vec<i64>,
    latency: Vec<i64>,
    missed: Vec<bool>,
    censored: Vec<bool>,
    /// Steps, and the rows that have them.
    steps: [(Vec<i64>, Vec<i16>); STAGES.len()],
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
            group: Group::default(),
        })
    }

    fn write_group(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.group);
        let mut group = self.writer.next_row_group()?;
        let out = &mut group;
        put::<Int32Type, W>(out, &rows.line, None)?;
        put::<Int32Type, W>(out, &rows.cpu, None)?;
        put::<ByteArrayType, W>(out, &rows.service, None)?;
        put::<ByteArrayType, W>(out, &rows.route, None)?;
        put::<Int64Type, W>(out, &rows.seq, None)?;
        put::<Int64Type, W>(out, &rows.expiry, None)?;
        put::<Int64Type, W>(out, &rows.latency, None)?;
        put::<BoolType, W>(out, &rows.missed, None)?;
        put::<BoolType, W>(out, &rows.censored, None)?;
        for (values, present) in &rows.steps {
            put::<Int64Type, W>(out, values, Some(present))?;
        }
        group.close()?;
        // Completed batches are written immediately.
        self.writer.flush()?;
        Ok(())
    }
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

impl Group {
    fn add(&mut self, batch: &Batch, row: usize, line: &Line) {
        self.line.push(batch.line[row].0.into());
        self.cpu.push(i32::try_from(line.cpu.0).unwrap_or(i32::MAX));
        self.service.push(line.service.to_string().as_str().into());
        self.route.push(line.route.to_string().as_str().into());
        self.seq.push(batch.seq[row].cast_signed());
        self.expiry.push(batch.expiry_ns[row].cast_signed());
        self.latency.push(latency(batch, row).ns().cast_signed());
        self.missed.push(batch.missed[row]);
        self.censored.push(batch.censored[row]);
        for ((values, present), step) in self.steps.iter_mut().zip(steps(batch, row)) {
            present.push(step.is_some().into());
            values.extend(step.map(u64::cast_signed));
        }
    }
}

impl<W: Write + Send> Table for ParquetTable<'_, W> {
    fn add(&mut self, batch: &Batch) -> std::result::Result<(), ExportError> {
        for row in 0..batch.len() {
            let line = &self.lines[usize::from(batch.line[row].0)];
            self.group.add(batch, row, line);
            if self.group.line.len() == GROUP_ROWS {
                self.write_group()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> std::result::Result<(), ExportError> {
        if !self.group.line.is_empty() {
            self.write_group()?;
        }
        self.writer.close()?;
        Ok(())
    }
}
