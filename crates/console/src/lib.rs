//! Shared parts of the programs: arguments, output, and exit.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod args;
pub mod exit;
#[cfg(target_os = "linux")]
pub mod on_late;
pub mod pipe;
pub mod stack;
pub mod system;
