//! What recordings say, as `laggard show` shows it.

mod build;
mod dominant;
mod figures;
mod measured;
mod sentences;

pub use build::{recording, waiting};
pub use figures::{
    Figures, HistogramView, RecordingReport, Report, SHOW_SCHEMA, ServiceRow, Share, StageRow,
    Waiting, at_least, named_losses,
};
pub use laggard_analyze::distribution::QUANTILES;
pub use measured::{By, Measured, measured, report};
pub use sentences::still_waiting;
