//! Measuring on Windows: what its timers do. There is no probe yet.

mod clock;
mod host;
mod procedure;
mod processors;
mod timers;

pub use clock::now;
pub use host::{caveats, identify};
pub use processors::allowed_cpus;
pub use timers::{clocks, measure_timer};
