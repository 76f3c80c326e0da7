//! What the tests of several crates share: test hosts, and kernels compared on them.

#![forbid(unsafe_code)]

pub mod host;
pub mod versus;
