//! Recordings for other programs.
//!
//! Samples become the rows of a [`Table`], batch by batch, so that a recording
//! of any length takes the memory of a few of them. Distributions become
//! [`openmetrics()`], [`prometheus()`] or [`hdr()`], which take what `show` counted.

mod arrow;
mod columnar;
mod csv;
mod hdr;
mod openmetrics;
mod prometheus;
mod rows;

use std::io::{self, Write};

use arrow_schema::ArrowError;
use laggard_answer::show::RecordingReport;
use laggard_model::{Batch, Line, Nanos, STAGES};
use parquet::errors::ParquetError;

use crate::Named;

pub use hdr::hdr;
pub use openmetrics::openmetrics;
pub use prometheus::{prometheus, prometheus_text};

/// Why something cannot be written for others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The file or pipe refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The table cannot be encoded.
    #[error("cannot encode Parquet")]
    Parquet(#[source] ParquetError),
    /// The record batch cannot be encoded.
    #[error("cannot encode Arrow")]
    Arrow(#[source] ArrowError),
    /// The histogram cannot be encoded.
    #[error("cannot encode a histogram: {0}")]
    Hdr(String),
}

impl From<ParquetError> for ExportError {
    fn from(error: ParquetError) -> Self {
        // An error of the disk stays an I/O error.
        if let ParquetError::External(source) = error {
            return match source.downcast::<io::Error>() {
                Ok(error) => Self::Io(*error),
                Err(other) => Self::Parquet(ParquetError::External(other)),
            };
        }
        Self::Parquet(error)
    }
}

impl From<ArrowError> for ExportError {
    fn from(error: ArrowError) -> Self {
        // An error of the disk stays an I/O error.
        if let ArrowError::IoError(_, error) = error {
            return Self::Io(error);
        }
        Self::Arrow(error)
    }
}

/// What a recording is written as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ExportFormat {
    /// Samples: lines of text with commas, with a header.
    Csv,
    /// Samples: one Parquet file, in groups of 65,536 rows.
    Parquet,
    /// Samples: one Arrow file, in record batches of 65,536 rows.
    Arrow,
    /// The same as a stream.
    ArrowStream,
    /// Distributions: see [`openmetrics()`].
    Openmetrics,
    /// Distributions: see [`prometheus()`].
    Prometheus,
    /// Distributions: see [`hdr()`].
    Hdr,
}

impl Named for ExportFormat {
    const ALL: &'static [Self] = &[
        Self::Csv,
        Self::Parquet,
        Self::Arrow,
        Self::ArrowStream,
        Self::Openmetrics,
        Self::Prometheus,
        Self::Hdr,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::ArrowStream => "arrow-stream",
            Self::Openmetrics => "openmetrics",
            Self::Prometheus => "prometheus",
            Self::Hdr => "hdr",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Csv => "Samples, as lines of text with commas",
            Self::Parquet => "Samples, as one Parquet file",
            Self::Arrow => "Samples, as one Arrow file (Feather, version 2)",
            Self::ArrowStream => "Samples, as an Arrow stream",
            Self::Openmetrics => "Distributions, as OpenMetrics text 1.0.0",
            Self::Prometheus => {
                "Distributions, as Prometheus text 0.0.4 for node_exporter and promtool"
            }
            Self::Hdr => "Distributions, as a log of `HdrHistogram`",
        }
    }
}

impl ExportFormat {
    /// Returns the name of a binary format, which is not for a terminal.
    pub const fn binary(self) -> Option<&'static str> {
        match self {
            Self::Parquet => Some("Parquet"),
            Self::Arrow | Self::ArrowStream => Some("Arrow"),
            Self::Csv | Self::Openmetrics | Self::Prometheus | Self::Hdr => None,
        }
    }

    /// What writes a recording of `lines` in this format to `out`.
    ///
    /// # Errors
    /// When `out` refuses.
    pub fn writer<'a, W: Write + Send + 'a>(
        self,
        lines: &'a [Line],
        out: W,
    ) -> Result<ExportWriter<'a, W>, ExportError> {
        use ExportWriter::{Distributions, Samples};
        Ok(match self {
            Self::Csv => Samples(Box::new(csv::Csv::new(lines, out)?)),
            Self::Parquet => Samples(Box::new(columnar::ParquetTable::new(lines, out)?)),
            Self::Arrow => Samples(Box::new(arrow::ArrowTable::file(lines, out)?)),
            Self::ArrowStream => Samples(Box::new(arrow::ArrowTable::stream(lines, out)?)),
            Self::Openmetrics => Distributions(out, |report| Ok(openmetrics(report))),
            Self::Prometheus => Distributions(out, |report| Ok(prometheus(report))),
            Self::Hdr => Distributions(out, hdr),
        })
    }
}

/// Writer of a recording, by the content of the format.
#[expect(missing_debug_implementations, reason = "a table is behind a trait")]
pub enum ExportWriter<'a, W> {
    /// Every sample, batch by batch.
    Samples(Box<dyn Table + 'a>),
    /// What `show` counted, as a text.
    Distributions(W, fn(&RecordingReport) -> Result<String, ExportError>),
}

/// Takes the samples of a recording: one row per activation.
pub trait Table {
    /// Adds rows, of whose batch every column was read.
    ///
    /// # Errors
    /// When what it writes to refuses.
    fn add(&mut self, batch: &Batch) -> Result<(), ExportError>;

    /// Writes what is left.
    ///
    /// # Errors
    /// When what it writes to refuses.
    fn finish(self: Box<Self>) -> Result<(), ExportError>;
}

/// Columns before the columns of stages.
const COLUMNS: [&str; 9] = [
    "line",
    "cpu",
    "service",
    "route",
    "seq",
    "expiry_ns",
    "latency_ns",
    "missed",
    "censored",
];

fn stage_columns() -> impl Iterator<Item = String> {
    STAGES.iter().map(|stage| format!("{stage}_ns"))
}

/// Steps of a row, in the order of the stages.
fn steps(batch: &Batch, row: usize) -> impl Iterator<Item = Option<u64>> + '_ {
    let step = move |steps: &Vec<u64>| steps.get(row).copied();
    batch
        .step_ns
        .iter()
        .map(move |steps| step(steps).filter(|&ns| ns != Batch::ABSENT))
}

/// The sum of a row's steps.
fn latency(batch: &Batch, row: usize) -> Nanos {
    steps(batch, row)
        .flatten()
        .fold(Nanos::ZERO, |sum, step| sum + Nanos::from_ns(step))
}
