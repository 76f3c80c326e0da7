//! Trials: measurements with separate test threads that write no recording.
//!
//! [`timers`] tries every timer of the system (Jones & Regehr 1999), `switch` measures
//! context switches and `rtos` the criteria of a real-time operating system (Timmerman
//! 1998). Each uses clocks, scheduling and BPF loading of `laggard_measure`.

#[cfg(target_os = "linux")]
mod abilities;
#[cfg(any(target_os = "linux", windows))]
mod footing;
#[cfg(target_os = "linux")]
mod message_queue;
#[cfg(target_os = "linux")]
mod objects;
mod random;
#[cfg(any(target_os = "linux", windows))]
pub mod rtos;
#[cfg(any(target_os = "linux", windows))]
pub mod switch;
#[cfg(any(target_os = "linux", windows))]
pub mod timers;
#[cfg(windows)]
mod windows;

/// Clocks, scheduling and locks of this system.
#[cfg(target_os = "linux")]
use laggard_measure::linux as system;
#[cfg(windows)]
use windows as system;

#[cfg(target_os = "linux")]
pub use abilities::abilities;
