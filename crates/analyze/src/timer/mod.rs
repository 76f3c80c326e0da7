//! Accuracy of timers (docs/method.md 11): the grid of their expiries, the unit that they round to,
//! their latency relative to another timer, and whether they fire in pairs or drift.

mod difference;
mod gaps;
mod grid;
mod held_off;
mod rounding;

pub use difference::{QuartileDifference, difference, drift};
pub use gaps::{Intervals, binned, caught_up, intervals, paired, tick_from_none, tick_of_doubled};
pub use grid::{TickGrid, find_grid};
pub use held_off::{Delivery, HeldOffRound, delivery, stalls};
pub use rounding::{RoundingWay, RoundsTo, find_rounding};

/// Waits for varying times from varying call times: one entry each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// Requested time, ns.
    pub asked: Vec<f64>,
    /// Time of the call, ns.
    pub called: Vec<f64>,
    /// Time of the end, ns.
    pub woke: Vec<f64>,
}

impl Waits {
    /// Returns the duration of each wait, ns.
    pub fn waited(&self) -> Vec<f64> {
        let pairs = self.woke.iter().zip(&self.called);
        pairs.map(|(woke, called)| woke - called).collect()
    }

    /// Returns the latency of each wait, ns; negative if early.
    pub fn late(&self) -> Vec<f64> {
        let pairs = self.waited().into_iter().zip(&self.asked);
        pairs.map(|(waited, request)| waited - request).collect()
    }
}

/// Returns the fraction of `values` above `limit`, 0 to 1; 0 without values.
pub fn share_above(values: &[f64], limit: f64) -> f64 {
    let above = values.iter().filter(|value| **value > limit).count();
    above as f64 / values.len().max(1) as f64
}
