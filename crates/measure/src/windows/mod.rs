//! Measuring on Windows: what its timers do. There is no probe yet.

mod clock;
mod driver;
mod host;
mod procedure;
mod processors;
mod registry;
mod timers;

pub use clock::now;
pub use driver::{
    DriverError, DriverStatus, Signing, driver_status, install_driver, remove_driver, signing,
};
pub use host::{caveats, identify};
pub use processors::allowed_cpus;
pub use timers::{clocks, measure_timer};
