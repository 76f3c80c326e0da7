//! What our programs have in common: arguments, what they print, and how they end.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod args;
pub mod exit;
pub mod pipe;
pub mod stack;
pub mod system;
