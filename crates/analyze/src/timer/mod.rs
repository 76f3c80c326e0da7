//! What a timer does with the times it is asked for (docs/method.md 11): the grid on
//! which it serves, the unit to which it rounds, how much later than another it
//! is, and whether it goes wrong in pairs or drifts.

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

/// Waits for times that differ, called at instants that differ: one entry each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// The time that was asked for, ns.
    pub asked: Vec<f64>,
    /// When it was asked, ns.
    pub called: Vec<f64>,
    /// When it was over, ns.
    pub woke: Vec<f64>,
}

impl Waits {
    /// How long each took, ns.
    pub fn waited(&self) -> Vec<f64> {
        let pairs = self.woke.iter().zip(&self.called);
        pairs.map(|(woke, called)| woke - called).collect()
    }

    /// How much later each was than asked, ns; negative: earlier.
    pub fn late(&self) -> Vec<f64> {
        let pairs = self.waited().into_iter().zip(&self.asked);
        pairs.map(|(waited, asked)| waited - asked).collect()
    }
}

/// The share of `values` above `limit`, 0 to 1; 0 where there are none.
pub fn share_above(values: &[f64], limit: f64) -> f64 {
    let above = values.iter().filter(|value| **value > limit).count();
    above as f64 / values.len().max(1) as f64
}
