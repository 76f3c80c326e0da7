//! Histograms of one hour as the rows of a Parquet file.
//!
//! Each row is a bucket. Sums and extremes are in the first row of their figure and
//! null in its others, so that SUM, MIN and MAX over any rows are right.

use std::collections::HashSet;

use laggard_model::{Figure, Histogram, Line, LineId, Nanos};
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::errors::ParquetError;

use super::{FigureHour, LINE_COLUMNS, known_line, line_columns};
use crate::table::{self, Column, Damage, bad};

const COLUMNS: &str = "
    required binary figure (UTF8);
    required int32 hour;
    required int32 bucket;
    required int64 up_to_ns;
    required int64 count;
    optional fixed_len_byte_array(16) sum_ns (DECIMAL(38,0));
    optional fixed_len_byte_array(16) sum_squares_ns2 (DECIMAL(38,0));
    optional int64 min_ns;
    optional int64 max_ns;
    optional int64 max_expiry_ns;";

/// Largest number of DECIMAL(38, 0).
const MAX_DECIMAL: u128 = 10_u128.pow(38) - 1;
/// Maximum count of an hour. Sums of counts up to this do not overflow.
const MAX_COUNT: i64 = 1 << 53;

pub(super) fn encode<'a>(
    figures: impl Iterator<Item = &'a FigureHour>,
    lines: &[Line],
) -> Result<Vec<u8>, ParquetError> {
    let figures: Vec<&FigureHour> = figures.collect();
    // A row: its figure, whether it is the first of it, bucket, count.
    let rows: Vec<(&FigureHour, bool, usize, u64)> = figures
        .iter()
        .flat_map(|&figure| {
            let buckets = figure.histogram.buckets().enumerate();
            buckets.map(move |(row, (bucket, count))| (figure, row == 0, bucket, count))
        })
        .collect();
    let small = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let once: Vec<i16> = rows.iter().map(|row| i16::from(row.1)).collect();
    let time = |value: &dyn Fn(&FigureHour) -> Option<Nanos>| Column::SomeI64 {
        values: figures
            .iter()
            .map(|figure| value(figure).unwrap_or_default().ns().cast_signed())
            .collect(),
        present: once.clone(),
    };
    let decimal = |value: &dyn Fn(&Histogram) -> u128| Column::SomeDecimal {
        values: figures
            .iter()
            .map(|figure| {
                let bytes = value(&figure.histogram).min(MAX_DECIMAL).to_be_bytes();
                FixedLenByteArray::from(ByteArray::from(bytes.to_vec()))
            })
            .collect(),
        present: once.clone(),
    };
    let line_ids: Vec<LineId> = rows.iter().map(|row| row.0.line).collect();
    let mut columns = line_columns(&line_ids, lines);
    columns.extend([
        Column::Text(rows.iter().map(|row| row.0.figure.name().into()).collect()),
        Column::I32(rows.iter().map(|row| row.0.hour.cast_signed()).collect()),
        Column::I32(rows.iter().map(|row| small(row.2)).collect()),
        Column::I64(
            rows.iter()
                .map(|row| Histogram::upper_edge(row.2).ns().cast_signed())
                .collect(),
        ),
        Column::I64(rows.iter().map(|row| row.3.cast_signed()).collect()),
        decimal(&Histogram::sum_ns),
        decimal(&Histogram::sum_squares),
        time(&|figure| figure.histogram.min()),
        time(&|figure| figure.histogram.max()),
        time(&|figure| Some(figure.largest_at)),
    ]);
    table::encode(
        &format!("message histograms {{ {LINE_COLUMNS} {COLUMNS} }}"),
        columns,
    )
}

/// Data of a whole figure in its first row.
struct Moments {
    sum_ns: u128,
    sum_squares: u128,
    extremes: (Nanos, Nanos),
    largest_at: Nanos,
}

/// Returns the maximum number of rows of an hour: the buckets of each figure of each
/// line.
const fn max_rows(lines: usize) -> usize {
    lines.saturating_mul(Figure::COUNT * Histogram::BUCKETS)
}

pub(super) fn decode(content: Vec<u8>, lines: usize) -> Result<Vec<FigureHour>, Damage> {
    let table = table::Rows::read(content, max_rows(lines))?;
    let (line, hour, bucket) = (table.i32("line")?, table.i32("hour")?, table.i32("bucket")?);
    let (figure, count) = (table.text("figure")?, table.i64("count")?);
    let (sum, squares) = (
        table.some_decimal("sum_ns")?,
        table.some_decimal("sum_squares_ns2")?,
    );
    let time = |name| table.some_i64(name);
    let (min, max, max_at) = (time("min_ns")?, time("max_ns")?, time("max_expiry_ns")?);
    let ns = |value: i64| Nanos::from_ns(value.cast_unsigned());
    let mut figures = Vec::new();
    let mut decoded = HashSet::new();
    let mut row = 0;
    while row < table.len() {
        let (Some(sum_ns), Some(sum_squares), Some(min), Some(max), Some(expiry)) =
            (sum[row], squares[row], min[row], max[row], max_at[row])
        else {
            return Err(bad("no sum in row", row));
        };
        let moments = Moments {
            sum_ns,
            sum_squares,
            extremes: (ns(min), ns(max)),
            largest_at: ns(expiry),
        };
        let mut end = row + 1;
        while end < table.len() && sum[end].is_none() {
            end += 1;
        }
        let mut buckets = Vec::with_capacity(end - row);
        for row in row..end {
            if !(1..=MAX_COUNT).contains(&count[row]) {
                return Err(bad("count", count[row]));
            }
            let bucket = usize::try_from(bucket[row]).map_err(|_| bad("bucket", bucket[row]))?;
            buckets.push((bucket, count[row].cast_unsigned()));
        }
        let (line, hour) = (known_line(line[row], lines)?, hour[row]);
        let figure = Figure::from_name(&figure[row]).ok_or_else(|| bad("figure", &figure[row]))?;
        let hour = u32::try_from(hour).map_err(|_| bad("hour", hour))?;
        // A histogram takes 32 KiB of memory for any length of its row.
        if !decoded.insert((line, figure, hour)) {
            return Err(bad("a figure twice, again in row", row));
        }
        figures.push(FigureHour {
            line,
            figure,
            hour,
            histogram: moments
                .with(buckets)
                .ok_or_else(|| bad("a figure at row", row))?,
            largest_at: moments.largest_at,
        });
        row = end;
    }
    Ok(figures)
}

impl Moments {
    /// Returns `None` if the numbers are inconsistent.
    fn with(&self, buckets: Vec<(usize, u64)>) -> Option<Histogram> {
        if self.sum_ns.max(self.sum_squares) > MAX_DECIMAL {
            return None;
        }
        // `from_parts` adds counts; counts this small do not overflow.
        let total = buckets
            .iter()
            .try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
        total?;
        Histogram::from_parts(buckets, self.sum_ns, self.sum_squares, Some(self.extremes))
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Cpu, Route, Service};

    use super::*;

    /// A short row takes 32 KiB in memory, so the number of histograms has a limit.
    #[test]
    fn figure_that_occurs_twice_is_damage() {
        let line = Line::new(Cpu(0), Service::Other, Route::Direct);
        let mut histogram = Histogram::default();
        histogram.add(Nanos::from_us(7));
        let figure = FigureHour {
            line: LineId(0),
            figure: Figure::Latency,
            hour: 0,
            histogram,
            largest_at: Nanos::from_us(7),
        };
        let decoded = |figures: &[FigureHour]| {
            let lines = std::slice::from_ref(&line);
            decode(encode(figures.iter(), lines).unwrap(), lines.len())
        };

        let figures = std::slice::from_ref(&figure);
        assert_eq!(decoded(figures).unwrap(), figures);
        let twice = decoded(&[figure.clone(), figure.clone()]).unwrap_err();
        assert_eq!(twice.to_string(), "it holds a figure twice, again in row 1");
        let many = vec![figure; Figure::COUNT * Histogram::BUCKETS + 1];
        let many = decoded(&many).unwrap_err().to_string();
        assert!(many.contains("rows, above the"), "{many}");
    }
}
