//! The probes: how late the operating system runs code, stage by stage.
//!
//! A probe ([`Probe`]) measures [`laggard_model::Line`]s: a service on a CPU
//! by a route. `linux` measures for real, with eBPF or, without it, expiry and
//! user stage alone; [`fake`] plays a script, on any operating system. `windows` measures
//! expiry and user stage alone.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod board;
#[cfg(any(target_os = "linux", windows))]
mod clock_step;
#[cfg(any(target_os = "linux", windows))]
mod exhaustion;
pub mod fake;
mod flight;
#[cfg(target_os = "linux")]
mod groups;
#[cfg(target_os = "linux")]
pub mod host;
#[cfg(target_os = "linux")]
mod kernel_symbols;
#[cfg(target_os = "linux")]
pub mod linux;
#[cfg(target_os = "linux")]
mod names;
#[cfg(target_os = "linux")]
mod own;
mod probe;
#[cfg(any(target_os = "linux", windows))]
mod settled;
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "its sources are not built")
)]
mod source;
#[cfg(any(target_os = "linux", windows))]
mod sources;
#[cfg(target_os = "linux")]
mod symbols;
#[cfg(any(target_os = "linux", windows))]
mod timed_wait;
#[cfg(any(target_os = "linux", windows))]
mod used;
#[cfg(windows)]
pub mod windows;

#[cfg(target_os = "linux")]
pub use board::BoardMaps;
pub use board::Timeline;
#[cfg(any(target_os = "linux", windows))]
pub use clock_step::least_step;
pub use flight::Flight;
#[cfg(windows)]
pub use flight::KernelRecord;
#[cfg(target_os = "linux")]
pub use names::LiveNames;
pub use probe::{Drive, Pace, Probe, ProbeError, RefusedService, Request};
#[cfg(target_os = "linux")]
pub use symbols::{SymbolBook, read_symbols_as};
#[cfg(any(target_os = "linux", windows))]
pub use timed_wait::{For, Served, TimedWait};
