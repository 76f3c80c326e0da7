//! Activity on the machine next to the probe: loads, modelled tasks, injected faults.

pub mod disturb;
pub mod load;
pub mod task;

mod clock;
mod scheduling;
mod watchdog;
