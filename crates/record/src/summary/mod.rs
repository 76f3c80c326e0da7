//! Data of `keep: tail` in place of every sample: hourly histograms and the largest
//! latencies per minute.

mod counting;
mod histograms;
mod largest;

use laggard_model::{Figure, Histogram, Keep, LineId, Nanos};
use parquet::data_type::ByteArray;

use crate::Shortfall;
use crate::gate;
use crate::recording::Recording;
use crate::scan::damaged;
use crate::table::{self, Column, Damage};

pub(crate) use counting::Counting;

/// Maximum size of a summary file.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Figure of a line in an hour.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FigureHour {
    /// Line.
    pub line: LineId,
    /// Counted quantity.
    pub figure: Figure,
    /// Whole hours since the start of the recording.
    pub hour: u32,
    /// Counts.
    pub histogram: Histogram,
    /// Expiry of the activation with the largest value.
    pub largest_at: Nanos,
}

/// One of the largest latencies of a line in a minute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Largest {
    /// Line.
    pub line: LineId,
    /// Whole minutes since the start of the recording.
    pub minute: u32,
    /// Latency.
    pub latency: Nanos,
    /// Programmed time, `CLOCK_MONOTONIC`.
    pub expiry: Nanos,
    /// Sequence number.
    pub seq: u64,
    /// Whether the activation was missed.
    pub missed: bool,
    /// True if it was still pending at the end. The latency is then a lower bound.
    pub censored: bool,
}

/// All summaries of a recording.
#[derive(Debug, Default)]
pub struct Summaries {
    /// Ordered by hour, line and figure.
    pub figures: Vec<FigureHour>,
    /// Ordered by minute and line, largest first.
    pub largest: Vec<Largest>,
    /// Unreadable parts.
    pub shortfalls: Vec<Shortfall>,
}

impl Recording {
    /// Returns the summaries of a recording that kept the tail; empty if every sample
    /// was kept.
    pub fn summaries(&self) -> Summaries {
        let mut summaries = Summaries::default();
        for file in &self.histograms {
            let read = self.read_summary(file, histograms::decode);
            summaries.take(file, read, |summaries| &mut summaries.figures);
        }
        for file in &self.largest {
            let read = self.read_summary(file, largest::decode);
            summaries.take(file, read, |summaries| &mut summaries.largest);
        }
        // The manifest is written after the summaries, so it never counts more.
        if self.manifest.plan.keep == Keep::Tail {
            let counts = self.manifest.counts.iter();
            let counted = counts.fold(0_u64, |sum, count| {
                sum.saturating_add(count.served)
                    .saturating_add(count.missed)
            });
            let rows = counted.saturating_sub(summaries.activations());
            if rows > 0 {
                summaries
                    .shortfalls
                    .push(Shortfall::HistogramsShort { rows });
            }
        }
        summaries
    }

    /// Returns a file of histograms, read and encoded again.
    pub(crate) fn histograms_anew(&self, file: &str) -> Result<Vec<u8>, Damage> {
        let rows = self.read_summary(file, histograms::decode)?;
        Ok(histograms::encode(rows.iter(), &self.manifest.lines)?)
    }

    /// Returns a file of largest latencies, read and encoded again.
    pub(crate) fn largest_anew(&self, file: &str) -> Result<Vec<u8>, Damage> {
        let rows = self.read_summary(file, largest::decode)?;
        Ok(largest::encode(rows.iter(), &self.manifest.lines)?)
    }

    fn read_summary<T>(
        &self,
        file: &str,
        decode: impl FnOnce(Vec<u8>, usize) -> Result<Vec<T>, Damage>,
    ) -> Result<Vec<T>, Damage> {
        let content = gate::read(&self.dir.join(file), MAX_FILE_BYTES)?;
        decode(content, self.manifest.lines.len())
    }
}

impl Summaries {
    /// Returns the number of activations in the histograms.
    pub fn activations(&self) -> u64 {
        let whole = |figure: &&FigureHour| {
            matches!(
                figure.figure,
                Figure::Latency | Figure::Missed | Figure::Censored
            )
        };
        let counts = self.figures.iter().filter(whole);
        counts.fold(0, |sum, figure| {
            sum.saturating_add(figure.histogram.count())
        })
    }

    fn take<T>(
        &mut self,
        file: &str,
        read: Result<Vec<T>, Damage>,
        place: impl FnOnce(&mut Self) -> &mut Vec<T>,
    ) {
        match read {
            Ok(mut rows) => place(self).append(&mut rows),
            Err(damage) => self.shortfalls.push(damaged(file, &damage)),
        }
    }
}

/// Columns that name a line, for people who query.
const LINE_COLUMNS: &str = "
    required int32 line;
    required int32 cpu;
    required binary service (UTF8);
    required binary route (UTF8);";

fn line_columns(rows: &[LineId], lines: &[laggard_model::Line]) -> Vec<Column> {
    let line = |row: &LineId| &lines[usize::from(row.0)];
    let text = |text: String| ByteArray::from(text.as_str());
    let cpu = |row| i32::try_from(line(row).cpu.0).unwrap_or(i32::MAX);
    let service = |row| text(line(row).service.to_string());
    let route = |row| text(line(row).route.to_string());
    vec![
        Column::I32(rows.iter().map(|row| row.0.into()).collect()),
        Column::I32(rows.iter().map(cpu).collect()),
        Column::Text(rows.iter().map(service).collect()),
        Column::Text(rows.iter().map(route).collect()),
    ]
}

/// Returns a line that is in the manifest.
fn known_line(line: i32, lines: usize) -> Result<LineId, Damage> {
    match u16::try_from(line) {
        Ok(id) if usize::from(id) < lines => Ok(LineId(id)),
        _ => Err(table::bad("line", line)),
    }
}
