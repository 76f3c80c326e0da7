//! Every view of a report: the only place that rounds and formats.
//!
//! [`Report`] is the value that all views show; [`text::show`] is the
//! terminal's, [`page::html`] the browser's, [`markdown`] is for issue trackers,
//! and its JSON is the value itself.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod advice;
mod build;
mod dominant;
mod figures;
mod finer;
pub mod forecast;
mod markdown;
pub mod page;
pub mod picture;
mod plot;
pub mod qos;
pub mod rehearsal;
mod remedy;
pub mod sched;
mod sentences;
pub mod text;
mod trust;
pub mod why;

pub use advice::{Advice, advice};
pub use build::{Measured, recording, waiting};
pub use figures::{
    Figures, HistogramView, RecordingReport, Report, SHOW_SCHEMA, ServiceRow, Share, StageRow,
    Waiting, named_losses,
};
pub use markdown::markdown;
pub use trust::{COST_TOO_MUCH, Case, Judgement, Trust, judge};
