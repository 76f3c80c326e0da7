//! Shared parts of the programs: arguments, output, and exit.

#![forbid(unsafe_code)]

pub mod args;
pub mod exit;
#[cfg(target_os = "linux")]
pub mod on_late;
pub mod pipe;
pub mod stack;
pub mod system;
