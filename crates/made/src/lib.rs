//! Constructed recordings and answers, for tests of their display.
//!
//! [`Made`] has activations, as [`laggard_answer::show`] counts them. [`late`] has late
//! activations with trace data, as [`laggard_answer::why`] explains them. [`overview`]
//! has a complete answer for the first screen. [`crowded`] has late wakeups with very
//! many records, for benchmarks. [`trace`] has traces of Windows, constructed byte by
//! byte.

#![forbid(unsafe_code)]

pub mod crowded;
pub mod late;
pub mod overview;
mod recording;
pub mod trace;

pub use recording::{LENGTH, Made, START, line};
