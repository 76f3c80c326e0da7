//! Recordings made by hand, for the tests of what is said about them.
//!
//! [`Made`] has activations, as [`laggard_answer::show`] counts them; [`late`] has
//! late ones with their evidence, as [`laggard_answer::why`] explains them.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod late;
mod recording;

pub use recording::{LENGTH, Made, START, line};
