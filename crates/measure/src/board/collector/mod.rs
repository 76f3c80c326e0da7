//! Activations from the slots of the board: the collector's side of the rings.
//!
//! Every expiry of a line's plan is settled once, in order. It is an activation (served or
//! missed), or it is lost for a reason. The sum of served, missed and lost is therefore the
//! number of planned expiries, even if the recording starts late, stalls or ends early.

// A new variant needs a decision here.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod ending;
mod line;
mod mirror;
mod skips;
mod stages;
mod stops;
#[cfg(test)]
mod tests;

pub use ending::Standing;
pub use line::{Asker, ExpectedStages, LineReader};
use mirror::Mirror;
pub use skips::Skips;
pub use stops::Stops;

use laggard_model::Nanos;

use super::{BoardCpu, BoardSlot};

/// Range of the board that a reader may read.
#[derive(Debug)]
pub struct BoardView<'a> {
    pub cpu: &'a BoardCpu,
    pub ring: &'a [BoardSlot],
    pub skips: &'a mut Skips,
    pub stops: &'a Stops,
    /// Expiries that were served later wait for the next pass, because the time when laggard
    /// was stopped is known only up to here.
    pub until: Nanos,
}
