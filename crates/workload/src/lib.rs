//! Activity on the machine next to the probe: loads, modelled tasks, injected faults.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod disturb;
pub mod load;
pub mod task;

mod clock;
mod scheduling;
mod watchdog;
