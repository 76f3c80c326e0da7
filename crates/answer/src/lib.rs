//! Answers from recordings: latencies, their causes, and conclusions from them.
//!
//! [`scan`] reads every sample of a recording once. [`loads`] opens the recordings of an [`Ask`],
//! reads them and groups them by load. A [`Load`] is the input of [`qos::assess`],
//! [`forecast::predict`], [`sched::analyse`] and [`rehearsal::compare`]. [`show::report`] has the
//! figures of one recording, [`why::Explained`] its late wakeups and their causes, and
//! [`overview::overview`] the first screen. [`compare::compare`] compares two sets of recordings,
//! and [`check::check`] tests recordings against requirements.
//!
//! Every answer is a value with a JSON layout (`serde`) and its schema (`schemars`). `view` builds
//! the sentences. This crate does not print, draw or know of a terminal.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_macros, reason = "a test may build text")
)]

pub mod attach;
mod began;
mod causes;
pub mod check;
pub mod compare;
pub mod contexts;
pub mod course;
mod digest;
pub mod doctor;
mod error;
mod finer;
mod floors;
pub mod forecast;
pub mod live;
mod load;
mod note;
pub mod overview;
pub mod proven;
pub mod qos;
pub mod rehearsal;
pub mod remedy;
mod report;
pub mod rtos;
mod scan;
pub mod sched;
mod selection;
pub mod show;
pub mod study;
pub mod switch;
pub mod timers;
pub mod trace;
pub mod trust;
mod verdict;
mod waiting;
pub mod why;

pub use causes::{Above, CauseSet, Composed, KnownCauses, MissingTraces};
pub use digest::{digest, digest_without_samples};
pub use error::{AnswerError, OtherCpus};
pub use laggard_record::Shortfall;
pub use load::{Load, LoadError, Run, have_no_work, have_rates, loads, loads_for_demand, open};
pub use note::{Doubt, Note};
pub use report::{Report, SHOW_SCHEMA};
pub use scan::{Ask, ScanResult, every_cpu, scan};
pub use trust::{Distrust, Trust};
