//! Recordings and answers made by hand, for the tests of what is said about them.
//!
//! [`Made`] has activations, as [`laggard_answer::show`] counts them; [`late`] has
//! late ones with their evidence, as [`laggard_answer::why`] explains them.
//! [`overview`] has a whole answer, as the first screen shows it.
//! [`crowded`] has late wakeups with very many records, for benchmarks.
//! [`trace`] has traces of Windows, byte by byte.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod crowded;
pub mod late;
pub mod overview;
mod recording;
pub mod trace;

pub use recording::{LENGTH, Made, START, line};
