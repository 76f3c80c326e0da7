//! What recordings say, as `laggard show` shows it.

mod build;
mod dominant;
mod figures;
mod intervals;
mod leading;
mod measured;
mod sentences;

pub use crate::waiting::Waiting;
pub use build::{recording, report};
pub use figures::{
    Figures, HistogramView, RecordingReport, ServiceRow, Share, StageRow, at_least, named_losses,
};
pub use intervals::{
    BINS, CountedInterval, GapBin, INTERVALS_SCHEMA, IntervalRow, IntervalsError, IntervalsReport,
    RecordingIntervals, intervals,
};
pub use laggard_analyze::distribution::QUANTILES;
pub use leading::{foremost, leading};
pub use measured::{By, Measured, measured};
pub(crate) use sentences::representative_row;
pub use sentences::still_waiting;
