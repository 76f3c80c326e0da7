//! Periodic sources of latency, and timer ticks that hide (docs/method.md 7 and 11;
//! Jones & Regehr 1999, sections 3 and 4).
//!
//! [`periodic_sources`] looks for combs among the times of late activations,
//! one time per cluster. [`find_tick`] looks for the grid on which wake-ups
//! really happen.

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
