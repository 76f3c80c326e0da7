//! Integration tests that need neither root nor a quiet machine.

#![allow(clippy::disallowed_macros, reason = "a test may build text")]

mod attended;
mod kept_time;
mod pictured;
mod probed;
mod prose;
mod recorded;
mod schedulable;
mod timers;
