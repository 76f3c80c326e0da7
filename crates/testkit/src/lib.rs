//! What the tests of several crates share: scripted recordings, test hosts.

#![forbid(unsafe_code)]

pub mod host;
