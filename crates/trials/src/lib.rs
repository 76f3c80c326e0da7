//! Trials: measurements with separate test threads that write no recording.
//!
//! [`timers`] tries every timer of the system (Jones & Regehr 1999), `switch` measures
//! context switches and `rtos` the criteria of a real-time operating system (Timmerman
//! 1998). Each uses clocks, scheduling and BPF loading of `laggard_measure`.

#[cfg(target_os = "linux")]
mod abilities;
#[cfg(target_os = "linux")]
mod footing;
#[cfg(target_os = "linux")]
mod message_queue;
#[cfg(target_os = "linux")]
mod objects;
mod random;
#[cfg(target_os = "linux")]
pub mod rtos;
#[cfg(target_os = "linux")]
pub mod switch;
#[cfg(any(target_os = "linux", windows))]
pub mod timers;

#[cfg(target_os = "linux")]
pub use abilities::abilities;
