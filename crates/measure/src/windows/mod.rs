//! Measuring on Windows: what its timers do. There is no probe yet.

mod abilities;
mod clock;
mod driver;
mod etw;
mod host;
mod procedure;
mod processors;
mod registry;
mod rights;
mod setup;
mod timers;

pub use abilities::abilities;
pub use clock::now;
pub use driver::{
    DriverError, DriverStatus, Signing, driver_status, install_driver, remove_driver, signing,
};
pub use host::{caveats, identify};
pub use processors::allowed_cpus;
pub use setup::setup_caveats;
pub use timers::{clocks, measure_timer};
