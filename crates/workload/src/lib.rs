//! What runs on the machine besides the probe: loads, modelled tasks, disturbances.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod disturb;
pub mod load;
pub mod task;

mod clock;
mod scheduling;
mod watchdog;
