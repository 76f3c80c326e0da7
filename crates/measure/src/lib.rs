//! The probes: how late the operating system runs code, stage by stage.
//!
//! A probe ([`Probe`]) measures [`laggard_model::Line`]s: a service on a CPU
//! by a route. [`linux`] measures for real, with eBPF or, without it, expiry
//! and user stage alone; [`fake`] plays a script.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod board;
pub mod fake;
pub mod host;
pub mod linux;
mod names;
mod own;
mod probe;
mod symbols;

pub use board::Timeline;
pub use names::LiveNames;
pub use probe::{Probe, ProbeError, Request, Source};
pub use symbols::SymbolBook;
