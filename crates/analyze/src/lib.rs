//! From recordings to answers: pure functions, no I/O.

#![forbid(unsafe_code)]

pub mod causes;
pub mod distribution;
