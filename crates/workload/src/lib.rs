//! Activity on the machine next to the probe: loads, modelled tasks, injected faults.

#[cfg(target_os = "linux")]
pub mod disturb;
pub mod load;
#[cfg(target_os = "linux")]
pub mod task;

#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod scheduling;
#[cfg(target_os = "linux")]
mod watchdog;
