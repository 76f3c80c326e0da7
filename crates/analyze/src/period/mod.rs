//! Periodic sources of latency, and hidden timer ticks (docs/method.md 7 and 11; Jones
//! & Regehr 1999, sections 3 and 4).
//!
//! [`periodic_sources`] searches combs among the times of late wakeups, one time
//! per cluster. [`find_tick`] searches the grid of actual wakeup times.

mod alarm;
mod bands;
mod comb;
mod lattice;
mod many;
mod peel;
mod tick;

pub use alarm::held_together;
pub use bands::periodic_sources_by_size;
pub use comb::{Comb, CombSearch, find_comb};
pub use peel::{PeriodicSource, SourceSearch, periodic_sources};
pub use tick::{Tick, TickSearch, find_tick};
