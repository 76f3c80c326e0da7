//! Wakeups in the Arrow format, in record batches of bounded size: a file that can be mapped into
//! memory (also known as Feather, version 2), or a stream.

use std::io::{BufWriter, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use laggard_model::{Batch, Line};

use super::rows::{BATCH_ROWS, Rows};
use super::{COLUMNS, ExportError, Table, stage_columns};

/// Types of [`COLUMNS`], the same as in the Parquet table.
const TYPES: [DataType; COLUMNS.len()] = [
    DataType::Int32,
    DataType::Int32,
    DataType::Utf8,
    DataType::Utf8,
    DataType::Int64,
    DataType::Int64,
    DataType::Int64,
    DataType::Boolean,
    DataType::Boolean,
];

/// Destination of record batches.
enum Encoder<W: Write> {
    File(FileWriter<BufWriter<W>>),
    Stream(StreamWriter<BufWriter<W>>),
}

pub(super) struct ArrowTable<'a, W: Write> {
    lines: &'a [Line],
    schema: Arc<Schema>,
    encoder: Encoder<W>,
    rows: Rows,
}

impl<'a, W: Write> ArrowTable<'a, W> {
    /// Creates a file, which ends with a table of its batches.
    pub(super) fn file(lines: &'a [Line], out: W) -> Result<Self, ExportError> {
        let schema = schema();
        let encoder = FileWriter::try_new(BufWriter::new(out), &schema)?;
        Ok(Self::new(lines, schema, Encoder::File(encoder)))
    }

    /// Creates a stream, which can be read while it is written.
    pub(super) fn stream(lines: &'a [Line], out: W) -> Result<Self, ExportError> {
        let schema = schema();
        let encoder = StreamWriter::try_new(BufWriter::new(out), &schema)?;
        Ok(Self::new(lines, schema, Encoder::Stream(encoder)))
    }

    fn new(lines: &'a [Line], schema: Arc<Schema>, encoder: Encoder<W>) -> Self {
        Self {
            lines,
            schema,
            encoder,
            rows: Rows::default(),
        }
    }

    fn write_batch(&mut self) -> Result<(), ArrowError> {
        let columns = std::mem::take(&mut self.rows).columns();
        let batch = RecordBatch::try_new(self.schema.clone(), columns)?;
        match &mut self.encoder {
            Encoder::File(file) => file.write(&batch),
            Encoder::Stream(stream) => {
                stream.write(&batch)?;
                // Readers can use the batch before the next one is written.
                stream.flush()
            }
        }
    }
}

fn schema() -> Arc<Schema> {
    let fixed = COLUMNS.into_iter().zip(TYPES);
    let fixed = fixed.map(|(name, kind)| Field::new(name, kind, false));
    let stages = stage_columns().map(|name| Field::new(name, DataType::Int64, true));
    Arc::new(Schema::new(fixed.chain(stages).collect::<Vec<_>>()))
}

impl Rows {
    /// Returns the columns in the order of the schema.
    fn columns(self) -> Vec<ArrayRef> {
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(self.line)),
            Arc::new(Int32Array::from(self.cpu)),
            Arc::new(StringArray::from(self.service)),
            Arc::new(StringArray::from(self.route)),
            Arc::new(Int64Array::from(self.seq)),
            Arc::new(Int64Array::from(self.expiry)),
            Arc::new(Int64Array::from(self.latency)),
            Arc::new(BooleanArray::from(self.missed)),
            Arc::new(BooleanArray::from(self.censored)),
        ];
        for steps in self.steps {
            columns.push(Arc::new(Int64Array::from(steps)));
        }
        columns
    }
}

impl<W: Write> Table for ArrowTable<'_, W> {
    fn add(&mut self, batch: &Batch) -> Result<(), ExportError> {
        for row in 0..batch.len() {
            let line = &self.lines[usize::from(batch.line[row].0)];
            self.rows.add(batch, row, line);
            if self.rows.line.len() == BATCH_ROWS {
                self.write_batch()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        if !self.rows.line.is_empty() {
            self.write_batch()?;
        }
        match &mut self.encoder {
            Encoder::File(file) => file.finish()?,
            Encoder::Stream(stream) => stream.finish()?,
        }
        Ok(())
    }
}
