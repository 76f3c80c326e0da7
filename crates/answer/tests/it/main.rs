//! Integration tests that need neither root nor a quiet machine.

#![allow(clippy::disallowed_macros, reason = "a test may build text")]

mod advice;
mod attended;
mod contexts;
mod pictured;
mod probed;
mod prose;
mod recorded;
mod sentences;
mod timers;
mod trust;
