//! `laggard show`: figures of recordings.

mod build;
mod figures;
mod intervals;
mod leading;
mod measured;

pub use crate::waiting::Waiting;
pub use build::{recording, report};
pub use figures::{
    Figures, HistogramView, RecordingReport, RunDelayRow, ServiceRow, Share, StageRow, named_losses,
};
pub use intervals::{
    BINS, CountedInterval, GapBin, INTERVALS_SCHEMA, IntervalRow, IntervalsError, IntervalsReport,
    RecordingIntervals, intervals,
};
pub use laggard_analyze::distribution::QUANTILES;
pub use laggard_model::text::at_least;
pub(crate) use leading::representative_row;
pub use leading::{foremost, leading};
pub use measured::{By, Measured, measured};
