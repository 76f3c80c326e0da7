//! What runs on the machine besides the probe: loads, modelled tasks, disturbances.

pub mod disturb;
pub mod load;
pub mod task;

mod clock;
mod scheduling;
mod watchdog;
