//! Statistics of recordings: pure functions, no I/O.
//!
//! The mathematics takes plain numbers. Times are in nanoseconds and rates per
//! nanosecond everywhere. Functions that need random numbers (bootstrap, Monte Carlo)
//! take a seed, and the same seed gives the same answer. `docs/method.md` has the
//! formulas with their sources; comments cite its sections.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bumps;
pub mod causes;
pub mod compare;
pub mod counts;
pub mod distribution;
pub mod exceedance;
pub mod forecast;
pub mod hand_over;
mod input;
mod interval;
pub mod period;
pub mod qos;
mod sample;
pub mod sched;
mod solve;
pub mod timer;
pub mod trend;

pub use input::InputError;
pub use interval::Interval;
