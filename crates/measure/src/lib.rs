//! Probes: how late the operating system runs code, stage by stage.
//!
//! A probe ([`Probe`]) measures [`laggard_model::Line`]s: a service on a CPU by a route. `linux`
//! measures with eBPF or, without it, only the stages expiry and user. [`fake`] plays a script on
//! any operating system. `windows` measures only the stages expiry and user.

pub mod board;
mod clock_step;
pub mod exhaustion;
pub mod fake;
pub mod flight;
#[cfg(target_os = "linux")]
mod go_program;
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
pub mod probe;
pub mod settled;
pub mod source;
pub mod sources;
#[cfg(target_os = "linux")]
mod symbols;
mod timed_wait;
#[cfg(target_os = "linux")]
mod used;

#[cfg(target_os = "linux")]
pub use board::BoardMaps;
pub use board::Timeline;
pub use clock_step::min_step;
pub use flight::Flight;
#[cfg(target_os = "linux")]
pub use names::LiveNames;
pub use probe::{Drive, Pace, Probe, ProbeError, RefusedService, Request};
#[cfg(target_os = "linux")]
pub use symbols::{SymbolBook, read_symbols_as};
pub use timed_wait::{For, Served, TimedWait};
