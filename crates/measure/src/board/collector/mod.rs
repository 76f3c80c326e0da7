//! From the board's slots to activations: the collector's side of the rings.
//!
//! Every expiry of a line's plan is settled once, in order: it is an activation
//! (served or missed), or lost for a reason. So served + missed + lost is what
//! was planned, however a recording begins, stalls and ends.

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

/// What a reader looks at, and up to when.
#[derive(Debug)]
pub struct BoardView<'a> {
    pub cpu: &'a BoardCpu,
    pub ring: &'a [BoardSlot],
    pub skips: &'a mut Skips,
    pub stops: &'a Stops,
    /// What was served later waits for the next look: only until then is it
    /// known when laggard was stopped.
    pub until: Nanos,
}
