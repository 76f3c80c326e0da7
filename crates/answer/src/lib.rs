//! Recordings to answers: what was measured, who made it late, and what follows
//! from that.
//!
//! [`scan`] reads every sample of a recording once, into whatever gathers them.
//! [`loads`] opens the recordings of an [`Ask`], reads each so, and puts those
//! of one load together; a [`Load`] is what [`qos::assess`], [`forecast::predict`],
//! [`sched::analyse`] and [`rehearsal::compare`] start from. [`show::report`] has
//! the figures of one recording, [`why::Explained`] its late activations and who
//! was to blame, [`overview::overview`] all of it on one screen;
//! [`compare::compare`] sets two sets of recordings against each other, and
//! [`check::check`] recordings against requirements.
//!
//! Every answer is a value with a JSON layout (`serde`) and a schema of it
//! (`schemars`). A converted answer ([`rtos`]) has kinds and numbers; the crate of the
//! views builds the sentences. The others still have sentences of their own. Nothing here
//! prints, draws or knows of a terminal.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_macros,
    reason = "only converted modules return values alone; they deny `format!`"
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
mod waiting;
pub mod why;

pub use causes::{Above, CauseSet, Composed, KnownCauses, MissingTraces};
pub use digest::{digest, digest_without_samples};
pub use error::AnswerError;
pub use laggard_record::Shortfall;
pub use load::{Load, LoadError, Run, have_no_work, have_rates, loads, loads_for_demand, open};
pub use note::{Doubt, Note};
pub use report::{Report, SHOW_SCHEMA};
pub use scan::{Ask, Scanned, every_cpu, scan};
pub use trust::{Distrust, Trust};
