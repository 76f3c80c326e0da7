//! What `keep: tail` stores instead of every sample: histograms by the hour
//! and the largest by the minute.

mod counting;
mod histograms;
mod largest;

use laggard_model::{Histogram, Keep, LineId, Nanos};
use parquet::data_type::ByteArray;

use crate::gate;
use crate::recording::Recording;
use crate::scan::damaged;
use crate::table::{self, Column, Damage};
use crate::{Figure, Shortfall};

pub(crate) use counting::Counting;

/// A summary file larger than this is not ours.
const LARGEST_FILE: u64 = 1 << 30;

/// One figure of one line in one hour.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FigureHour {
    /// The line.
    pub line: LineId,
    /// What was counted.
    pub figure: Figure,
    /// Whole hours since the recording's start.
    pub hour: u32,
    /// The counts.
    pub histogram: Histogram,
    /// The expiry of the activation that had the largest.
    pub largest_at: Nanos,
}

/// One of the largest latencies of a line in a minute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Largest {
    /// The line.
    pub line: LineId,
    /// Whole minutes since the recording's start.
    pub minute: u32,
    /// Its latency.
    pub latency: Nanos,
    /// Its programmed time, `CLOCK_MONOTONIC`.
    pub expiry: Nanos,
    /// Its sequence number.
    pub seq: u64,
    /// Whether it was missed.
    pub missed: bool,
    /// Whether it was still waiting at the end: the latency is at least this.
    pub censored: bool,
}

/// All summaries of a recording.
#[derive(Debug, Default)]
pub struct Summaries {
    /// By hour, line and figure.
    pub figures: Vec<FigureHour>,
    /// By minute and line, the largest first.
    pub largest: Vec<Largest>,
    /// What could not be read.
    pub shortfalls: Vec<Shortfall>,
}

impl Recording {
    /// The summaries of a recording that kept the tail; nothing where every
    /// sample was kept.
    pub fn summaries(&self) -> Summaries {
        let mut summaries = Summaries::default();
        for file in &self.histograms {
            let read = self.read_summary(file, histograms::decode);
            summaries.take(file, read, |all| &mut all.figures);
        }
        for file in &self.largest {
            let read = self.read_summary(file, largest::decode);
            summaries.take(file, read, |all| &mut all.largest);
        }
        // The manifest is written after the summaries, so it never counts more.
        if self.manifest.plan.keep == Keep::Tail {
            let counts = self.manifest.counts.iter();
            let counted = counts.fold(0_u64, |sum, one| {
                sum.saturating_add(one.served).saturating_add(one.missed)
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

    /// A file of histograms, read and written anew.
    pub(crate) fn histograms_anew(&self, file: &str) -> Result<Vec<u8>, Damage> {
        let rows = self.read_summary(file, histograms::decode)?;
        Ok(histograms::encode(rows.iter(), &self.manifest.lines)?)
    }

    /// The same of a file of the largest.
    pub(crate) fn largest_anew(&self, file: &str) -> Result<Vec<u8>, Damage> {
        let rows = self.read_summary(file, largest::decode)?;
        Ok(largest::encode(rows.iter(), &self.manifest.lines)?)
    }

    fn read_summary<T>(
        &self,
        file: &str,
        decode: impl FnOnce(Vec<u8>, usize) -> Result<Vec<T>, Damage>,
    ) -> Result<Vec<T>, Damage> {
        let content = gate::read(&self.dir.join(file), LARGEST_FILE)?;
        decode(content, self.manifest.lines.len())
    }
}

impl Summaries {
    /// How many activations the histograms hold.
    pub fn activations(&self) -> u64 {
        let whole = |one: &&FigureHour| {
            matches!(
                one.figure,
                Figure::Latency | Figure::Missed | Figure::Censored
            )
        };
        let counts = self.figures.iter().filter(whole);
        counts.fold(0, |sum, one| sum.saturating_add(one.histogram.count()))
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

/// The columns that name a line, for people who query.
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

/// A line that the manifest has.
fn known_line(line: i32, lines: usize) -> Result<LineId, Damage> {
    match u16::try_from(line) {
        Ok(known) if usize::from(known) < lines => Ok(LineId(known)),
        _ => Err(table::bad("line", line)),
    }
}
