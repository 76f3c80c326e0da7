//! Measuring on Windows: threads that wait for waitable timers, and what its timers do.
//! It was tried under Wine alone.

mod clock;
mod host;
mod memory;
mod priority;
mod probe;
mod procedure;
mod processors;
mod thread;
mod threads;
mod timers;
mod usage;

pub use clock::now;
pub use host::{caveats, identify};
pub use priority::give_way;
pub use probe::WindowsProbe;
pub use processors::allowed_cpus;
pub use timers::{clocks, measure_timer};
pub(crate) use usage::used;
