//! Shared parts of the tests of several crates: test hosts, and kernels compared on them.

#![forbid(unsafe_code)]

pub mod host;
pub mod versus;
