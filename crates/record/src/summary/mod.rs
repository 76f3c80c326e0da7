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

impl FigureHour {
    /// Returns the number of activations, which is zero for a part of a latency.
    const fn activations(&self) -> u64 {
        match self.figure {
            Figure::Latency | Figure::Missed | Figure::Censored => self.histogram.count(),
            Figure::Thread | Figure::Step(_) => 0,
        }
    }
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

impl Recording {
    /// Passes the histograms of a recording that kept the tail to `take`, hour by hour, each
    /// ordered by line and figure: those of a day on 64 CPUs take 450 MB. Returns the
    /// unreadable parts.
    pub fn each_figure(&self, mut take: impl FnMut(FigureHour)) -> Vec<Shortfall> {
        let mut shortfalls = Vec::new();
        let mut activations = 0_u64;
        for file in &self.histograms {
            match self.read_summary(file, histograms::decode) {
                Ok(figures) => {
                    for stored in figures {
                        activations = activations.saturating_add(stored.activations());
                        take(stored);
                    }
                }
                Err(damage) => shortfalls.push(damaged(file, &damage)),
            }
        }
        // The manifest is written after the summaries, so it never counts more.
        if self.manifest.plan.keep == Keep::Tail {
            let counts = self.manifest.counts.iter();
            let counted = counts.fold(0_u64, |sum, count| {
                sum.saturating_add(count.served)
                    .saturating_add(count.missed)
            });
            let rows = counted.saturating_sub(activations);
            if rows > 0 {
                shortfalls.push(Shortfall::HistogramsShort { rows });
            }
        }
        shortfalls
    }

    /// Passes the largest latencies of a recording that kept the tail to `take`, hour by hour,
    /// each ordered by minute and line, largest first. Returns the unreadable parts.
    pub fn each_largest(&self, mut take: impl FnMut(Largest)) -> Vec<Shortfall> {
        let mut shortfalls = Vec::new();
        for file in &self.largest {
            match self.read_summary(file, largest::decode) {
                Ok(rows) => rows.into_iter().for_each(&mut take),
                Err(damage) => shortfalls.push(damaged(file, &damage)),
            }
        }
        shortfalls
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
