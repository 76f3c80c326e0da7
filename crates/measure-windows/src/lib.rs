//! Probes of Windows: threads that wait for waitable timers, kernel events during the
//! measurement (ETW), and the timer trials. Experimental: tested only under Wine.

#![cfg(windows)]

mod abilities;
mod awake;
mod clock;
mod closing;
mod driver;
mod etw;
mod host;
mod memory;
mod power;
mod priority;
mod probe;
mod procedure;
mod processors;
mod registry;
mod request;
mod rights;
mod setup;
mod stamper;
mod stop;
mod sync;
mod thread;
mod threads;
mod timers;
mod usage;
mod used;
mod wdmlat;

pub use abilities::abilities;
pub use clock::now;
pub use closing::at_closing;
pub use driver::{
    DriverError, DriverStatus, Signing, driver_status, install_driver, remove_driver, signing,
};
pub use etw::{EventFlight, ImageBook};
pub use host::{caveats, identify};
pub use priority::{RealtimeClass, give_way, has_realtime_class, schedule_as};
pub use probe::WindowsProbe;
pub use processors::{allowed_cpus, pin, pin_process};
pub use setup::setup_caveats;
pub use sync::{KernelObject, Lock, wait_while, wake_all, wake_one};
pub use timers::{WaitableTimer, clocks, open as open_timer};
