//! Sample segments: activations as the rows of a Parquet file.

use bytes::Bytes;
use laggard_model::{Activation, Batch, Line, LineId, STAGES, Stage};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{BoolType, ByteArray, DataType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;

use crate::journal;
use crate::table::{self, Column, Damage, MAX_ROWS, SplitColumn, bad, guarded};

/// Rows of a full segment.
pub(crate) const SEGMENT_ROWS: usize = 65_536;
/// Maximum number of rows of a readable segment: several times the written number, in
/// case the disk refused segments for a while.
pub(crate) const MAX_SEGMENT_ROWS: usize = 8 * SEGMENT_ROWS;
/// Rows of a batch for a reader: its columns fit a core's cache.
pub(crate) const BATCH_ROWS: usize = 4_096;

const FIXED_COLUMNS: &str = "
    required int32 line;
    required int32 cpu;
    required binary service (UTF8);
    required binary route (UTF8);
    required int64 seq;
    required int64 expiry_us;
    required int32 expiry_sub_ns;
    required boolean missed;
    required boolean censored;";

/// Columns of a sample segment to read.
///
/// The line is always read. Other columns of the batches are empty unless selected, to
/// save decoding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Columns {
    /// Sequence numbers.
    pub seq: bool,
    /// Programmed times.
    pub expiry: bool,
    /// True if it was missed, and true if it was still pending at the end.
    pub missed: bool,
    /// Steps, by [`Stage::index`].
    pub steps: [bool; STAGES.len()],
}

impl Columns {
    /// Selects every column, as [`Batch::get`] requires.
    pub const fn all() -> Self {
        Self {
            seq: true,
            expiry: true,
            missed: true,
            steps: [true; STAGES.len()],
        }
    }

    /// Selects every step and `missed`: enough for every latency.
    pub const fn latencies() -> Self {
        Self {
            seq: false,
            expiry: false,
            ..Self::all()
        }
    }

    /// Adds the step that ends at `stage`.
    #[must_use]
    pub const fn step(mut self, stage: Stage) -> Self {
        self.steps[stage.index()] = true;
        self
    }
}

/// Encodes the rows, sorted by line and sequence number, as a Parquet file. Every row's
/// line must be in `lines`.
pub(crate) fn encode(rows: &Batch, lines: &[Line]) -> Result<Vec<u8>> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_unstable_by_key(|&row| (rows.line[row], rows.seq[row]));
    let line_of = |row: &usize| &lines[usize::from(rows.line[*row].0)];
    // Dictionary columns need one value each; clones of these only count references.
    let names = |name: &dyn Fn(&Line) -> String| -> Column {
        let names: Vec<ByteArray> = lines
            .iter()
            .map(|line| name(line).as_str().into())
            .collect();
        let name = |row: &usize| names[usize::from(rows.line[*row].0)].clone();
        Column::Text(order.iter().map(name).collect())
    };
    let small = |value: &dyn Fn(usize) -> i32| -> Column {
        Column::I32(order.iter().map(|&row| value(row)).collect())
    };
    let large = |value: &dyn Fn(usize) -> i64| -> Column {
        Column::I64(order.iter().map(|&row| value(row)).collect())
    };
    let cpu = |row| i32::try_from(line_of(&row).cpu.0).unwrap_or(i32::MAX);
    let expiry = |row: usize| rows.expiry_ns[row].cast_signed();
    // Each is created when it is written, because all together need the same amount of memory as
    // the rows.
    let fixed: [&dyn Fn() -> Column; 9] = [
        &|| small(&|row| rows.line[row].0.into()),
        &|| small(&cpu),
        &|| names(&|line| line.service.to_string()),
        &|| names(&|line| line.route.to_string()),
        &|| large(&|row| rows.seq[row].cast_signed()),
        &|| large(&|row| expiry(row) / 1_000),
        #[allow(clippy::cast_possible_truncation, reason = "less than 1,000")]
        &|| small(&|row| (expiry(row) % 1_000) as i32),
        &|| Column::Bool(order.iter().map(|&row| rows.missed[row]).collect()),
        &|| Column::Bool(order.iter().map(|&row| rows.censored[row]).collect()),
    ];
    let steps = rows.step_ns.iter().map(|steps| step_column(steps, &order));
    table::encode(&schema(), fixed.iter().map(|column| column()).chain(steps))
}

fn schema() -> String {
    let steps: String = STAGES
        .iter()
        .map(|stage| format!("optional int64 {stage}_ns; "))
        .collect();
    format!("message samples {{ {FIXED_COLUMNS} {steps} }}")
}

fn step_column(steps: &[u64], order: &[usize]) -> Column {
    if steps.is_empty() {
        return Column::SomeI64 {
            values: Vec::new(),
            present: vec![0; order.len()],
        };
    }
    let sorted = || order.iter().map(|&row| steps[row]);
    Column::SomeI64 {
        values: sorted()
            .filter(|&ns| ns != Batch::ABSENT)
            .map(u64::cast_signed)
            .collect(),
        present: sorted().map(|ns| i16::from(ns != Batch::ABSENT)).collect(),
    }
}

/// Reader of a segment, batch by batch.
pub(crate) struct SegmentReader {
    file: SerializedFileReader<Bytes>,
    wanted: Columns,
    lines: usize,
    group: usize,
    open: Option<ColumnReaders>,
    scratch: Scratch,
}

/// Column readers of a row group, by content.
struct ColumnReaders {
    left: usize,
    line: ColumnReaderImpl<Int32Type>,
    seq: Option<ColumnReaderImpl<Int64Type>>,
    expiry: Option<(ColumnReaderImpl<Int64Type>, ColumnReaderImpl<Int32Type>)>,
    missed: Option<ColumnReaderImpl<BoolType>>,
    /// Missing in files from before this column existed.
    censored: Option<ColumnReaderImpl<BoolType>>,
    steps: [Option<StepColumn>; STAGES.len()],
}

/// Reader of the steps to a stage.
enum StepColumn {
    Split(SplitColumn),
    Other(Box<ColumnReaderImpl<Int64Type>>),
}

#[derive(Default)]
struct Scratch {
    long: Vec<i64>,
    short: Vec<i32>,
    present: Vec<i16>,
}

impl SegmentReader {
    /// Opens a segment's content. A row whose line is not below `lines` is damage.
    pub(crate) fn open(
        content: Vec<u8>,
        wanted: Columns,
        lines: usize,
    ) -> std::result::Result<Self, Damage> {
        let file = table::open(content)?;
        let rows = file.metadata().file_metadata().num_rows();
        let groups = file.metadata().row_groups().iter();
        let in_groups = groups.fold(0_i64, |sum, group| sum.saturating_add(group.num_rows()));
        let is_possible = |rows| usize::try_from(rows).is_ok_and(|rows| rows <= MAX_SEGMENT_ROWS);
        if !is_possible(rows) || !is_possible(in_groups) {
            return Err(Damage::BadValue(format!(
                "{} rows, above the {MAX_SEGMENT_ROWS} of a segment",
                rows.max(in_groups)
            )));
        }
        Ok(Self {
            file,
            wanted,
            lines,
            group: 0,
            open: None,
            scratch: Scratch::default(),
        })
    }

    /// Fills `batch` with the next rows; returns false at the end.
    pub(crate) fn next(&mut self, batch: &mut Batch) -> std::result::Result<bool, Damage> {
        batch.clear();
        guarded(|| self.fill(batch))
    }

    fn fill(&mut self, batch: &mut Batch) -> std::result::Result<bool, Damage> {
        while self.open.as_ref().is_none_or(|columns| columns.left == 0) {
            if self.group == self.file.num_row_groups() {
                return Ok(false);
            }
            let group = self.file.get_row_group(self.group)?;
            self.open = Some(ColumnReaders::open(group.as_ref(), self.wanted)?);
            self.group += 1;
        }
        let Some(columns) = &mut self.open else {
            return Ok(false);
        };
        let rows = columns.left.min(BATCH_ROWS);
        columns.left -= rows;
        columns.read(rows, &mut self.scratch, batch)?;
        match batch.line.iter().map(|line| usize::from(line.0)).max() {
            Some(line) if line >= self.lines => Err(bad("line", line)),
            _ => Ok(true),
        }
    }
}

impl ColumnReaders {
    fn open(group: &dyn RowGroupReader, wanted: Columns) -> std::result::Result<Self, Damage> {
        let long = |name: &str| {
            if let ColumnReader::Int64ColumnReader(reader) = table::column(group, name)? {
                return Ok(reader);
            }
            Err(Damage::OtherType(name.into()))
        };
        let short = |name: &str| {
            if let ColumnReader::Int32ColumnReader(reader) = table::column(group, name)? {
                return Ok(reader);
            }
            Err(Damage::OtherType(name.into()))
        };
        let flags = |name: &str| {
            if let ColumnReader::BoolColumnReader(reader) = table::column(group, name)? {
                return Ok(reader);
            }
            Err(Damage::OtherType(name.into()))
        };
        let mut steps = [const { None }; STAGES.len()];
        for (step, stage) in steps.iter_mut().zip(STAGES) {
            if !wanted.steps[stage.index()] {
                continue;
            }
            let name = format!("{stage}_ns");
            let index = match table::index_of(group, &name) {
                // Written before this stage existed.
                Err(Damage::NoColumn(_)) if journal::came_later(stage) => continue,
                index => index?,
            };
            *step = Some(match SplitColumn::open(group, index) {
                Some(column) => StepColumn::Split(column),
                None => StepColumn::Other(Box::new(long(&name)?)),
            });
        }
        let rows = group.metadata().num_rows();
        Ok(Self {
            left: usize::try_from(rows)
                .ok()
                .filter(|&rows| rows <= MAX_ROWS)
                .ok_or_else(|| bad("a number of rows of", rows))?,
            line: short("line")?,
            seq: wanted.seq.then(|| long("seq")).transpose()?,
            expiry: if wanted.expiry {
                Some((long("expiry_us")?, short("expiry_sub_ns")?))
            } else {
                None
            },
            missed: wanted.missed.then(|| flags("missed")).transpose()?,
            censored: match wanted.missed.then(|| flags("censored")) {
                None | Some(Err(Damage::NoColumn(_))) => None,
                Some(column) => Some(column?),
            },
            steps,
        })
    }

    fn read(
        &mut self,
        rows: usize,
        scratch: &mut Scratch,
        batch: &mut Batch,
    ) -> std::result::Result<(), Damage> {
        let Scratch {
            long,
            short,
            present,
        } = scratch;
        exactly(&mut self.line, rows, "line", short)?;
        for &line in short.iter() {
            let line = u16::try_from(line).map_err(|_| bad("line", line))?;
            batch.line.push(LineId(line));
        }
        if let Some(seq) = &mut self.seq {
            exactly(seq, rows, "seq", long)?;
            batch.seq.extend(long.iter().map(|seq| seq.cast_unsigned()));
        }
        if let Some((us, sub_ns)) = &mut self.expiry {
            exactly(us, rows, "expiry_us", long)?;
            exactly(sub_ns, rows, "expiry_sub_ns", short)?;
            let whole =
                |(us, sub): (&i64, &i32)| us.wrapping_mul(1_000).wrapping_add((*sub).into());
            let expiries = long.iter().zip(short.iter()).map(whole);
            batch.expiry_ns.extend(expiries.map(i64::cast_unsigned));
        }
        if let Some(missed) = &mut self.missed {
            exactly(missed, rows, "missed", &mut batch.missed)?;
            match &mut self.censored {
                Some(censored) => exactly(censored, rows, "censored", &mut batch.censored)?,
                None => batch.censored.resize(rows, false),
            }
        }
        for (reader, column) in self.steps.iter_mut().zip(&mut batch.step_ns) {
            match reader {
                Some(StepColumn::Split(reader)) => {
                    let is_complete = reader.read(rows, Batch::ABSENT, column);
                    if !is_complete {
                        return Err(Damage::ColumnShort("of a step".into()));
                    }
                }
                Some(StepColumn::Other(reader)) => {
                    read_step(reader, rows, long, present, column)?;
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// Reads `rows` values of a column without nulls.
fn exactly<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    name: &str,
    values: &mut Vec<T::T>,
) -> std::result::Result<(), Damage> {
    values.clear();
    reader.read_records(rows, None, None, values)?;
    if values.len() == rows {
        Ok(())
    } else {
        Err(Damage::ColumnShort(name.into()))
    }
}

/// Reads `rows` steps; the column stays empty if no row has one.
fn read_step(
    reader: &mut ColumnReaderImpl<Int64Type>,
    rows: usize,
    values: &mut Vec<i64>,
    present: &mut Vec<i16>,
    column: &mut Vec<u64>,
) -> std::result::Result<(), Damage> {
    values.clear();
    present.clear();
    reader.read_records(rows, Some(present), None, values)?;
    if present.len() != rows {
        return Err(Damage::ColumnShort("of a step".into()));
    }
    if values.len() == rows {
        column.extend(values.iter().map(|step| step.cast_unsigned()));
    } else if !values.is_empty() {
        let mut values = values.iter();
        for &present in present.iter() {
            let step = match present {
                0 => Batch::ABSENT,
                _ => values
                    .next()
                    .ok_or_else(|| Damage::ColumnShort("of a step".into()))?
                    .cast_unsigned(),
            };
            column.push(step);
        }
    }
    Ok(())
}

/// Passes rows to `each` in batches of the usual size.
pub(crate) fn in_batches(rows: &[Activation], mut each: impl FnMut(&Batch)) {
    let mut batch = Batch::default();
    for part in rows.chunks(BATCH_ROWS) {
        batch.clear();
        part.iter().for_each(|row| batch.push(row));
        each(&batch);
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Cpu, Nanos, Route, Service};

    use super::*;

    #[test]
    fn segment_of_too_many_rows_is_refused() {
        let line = Line::new(Cpu(0), Service::Other, Route::Direct);
        let row = Activation::new(LineId(0), 1, Nanos::from_ns(1), [None; STAGES.len()]);
        let mut rows = Batch::default();
        (0..=MAX_SEGMENT_ROWS).for_each(|_| rows.push(&row));

        let content = encode(&rows, &[line]).unwrap();
        assert!(content.len() < 1 << 14, "{}", content.len());
        let refused = SegmentReader::open(content, Columns::all(), 1).err();

        let message = refused.map(|damage| damage.to_string());
        assert_eq!(
            message.as_deref(),
            Some("it holds 524289 rows, above the 524288 of a segment")
        );
    }
}
