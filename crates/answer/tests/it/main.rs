//! Integration tests that need neither root nor a quiet machine.

mod advice;
mod attended;
mod contexts;
mod pictured;
mod probed;
mod recorded;
mod sentences;
mod timers;
mod trust;
