//! Largest latencies of each minute of one hour as a Parquet file.

use laggard_model::{Line, LineId, Nanos};
use parquet::errors::ParquetError;

use super::{LINE_COLUMNS, Largest, known_line, line_columns};
use crate::table::{self, Column, Damage, bad};

/// Maximum number of rows of a line in a file, many times the rows of an hour: 8 in each of 60
/// minutes are kept.
const ROWS_PER_LINE: usize = 8 * 60 * 24;

const COLUMNS: &str = "
    required int32 minute;
    required int64 latency_ns;
    required int64 expiry_ns;
    required int64 seq;
    required boolean missed;
    required boolean censored;";

pub(super) fn encode<'a>(
    rows: impl Iterator<Item = &'a Largest>,
    lines: &[Line],
) -> Result<Vec<u8>, ParquetError> {
    let rows: Vec<&Largest> = rows.collect();
    let line_ids: Vec<LineId> = rows.iter().map(|row| row.line).collect();
    let mut columns = line_columns(&line_ids, lines);
    let long = |value: &dyn Fn(&Largest) -> u64| {
        Column::I64(rows.iter().map(|row| value(row).cast_signed()).collect())
    };
    columns.extend([
        Column::I32(rows.iter().map(|row| row.minute.cast_signed()).collect()),
        long(&|row| row.latency.ns()),
        long(&|row| row.expiry.ns()),
        long(&|row| row.seq),
        Column::Bool(rows.iter().map(|row| row.missed).collect()),
        Column::Bool(rows.iter().map(|row| row.censored).collect()),
    ]);
    table::encode(
        &format!("message largest {{ {LINE_COLUMNS} {COLUMNS} }}"),
        columns,
    )
}

pub(super) fn decode(content: Vec<u8>, lines: usize) -> Result<Vec<Largest>, Damage> {
    let table = table::Rows::read(content, lines.saturating_mul(ROWS_PER_LINE))?;
    let (line, minute, missed) = (
        table.i32("line")?,
        table.i32("minute")?,
        table.bool("missed")?,
    );
    let censored = match table.bool("censored") {
        // Written before this column existed.
        Err(Damage::NoColumn(_)) => vec![false; table.len()],
        column => column?,
    };
    let (latency, expiry, seq) = (
        table.i64("latency_ns")?,
        table.i64("expiry_ns")?,
        table.i64("seq")?,
    );
    let ns = |value: i64| match u64::try_from(value) {
        Ok(value) => Ok(Nanos::from_ns(value)),
        Err(_) => Err(bad("a time of", value)),
    };
    (0..table.len())
        .map(|row| {
            Ok(Largest {
                line: known_line(line[row], lines)?,
                minute: u32::try_from(minute[row]).map_err(|_| bad("minute", minute[row]))?,
                latency: ns(latency[row])?,
                expiry: ns(expiry[row])?,
                seq: seq[row].cast_unsigned(),
                missed: missed[row],
                censored: censored[row],
            })
        })
        .collect()
}
