//! Views of an answer: the only crate that rounds and formats.
//!
//! [`doc`] is the model of a document and has a renderer for each output format. Answers
//! move to it one by one ([`check`], [`compare`], [`qos`] and others have). The others still have a renderer per format: [`text`] for the
//! terminal, [`page`] for the report, [`markdown()`] for
//! issue trackers. [`check::junit`] and [`check::github`] write for build systems,
//! [`picture`] draws single figures, [`flame()`] and [`perfetto()`] show late wakeups, and
//! [`export`] writes recordings for other programs. The JSON of an answer is the value
//! itself. Nothing here computes: `laggard-answer` does.

#![forbid(unsafe_code)]

pub mod advice;
pub mod attach;
pub mod bug;
pub mod check;
pub mod compare;
pub mod doc;
pub mod doctor;
pub mod export;
mod flame;
pub mod forecast;
pub mod intervals;
mod live;
mod markdown;
mod named;
mod notes;
pub mod on_late;
pub mod overview;
pub mod page;
mod perfetto;
mod phrase;
pub mod picture;
pub mod qos;
pub mod rehearsal;
pub mod rtos;
pub mod sched;
pub mod show;
pub mod study;
pub mod switch;
pub mod text;
pub mod timers;
pub mod trace;
pub mod why;

pub use flame::{FlameError, flame};
pub use live::{late_causes, live, live_summary, live_window};
pub use markdown::markdown;
pub use named::Named;
pub use perfetto::perfetto;
pub use phrase::trust;
