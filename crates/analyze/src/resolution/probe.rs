//! What our own probes add to a duration.

use crate::input::not_negative;
use crate::{InputError, Interval};

/// The true length of an interval that measured `duration` and in which `hits`
/// probes ran, each costing an amount within `cost`; never below zero.
///
/// A duration below five times the highest cost should not be reported at all.
///
/// # Errors
/// When a number is negative or the cost's limits are in the wrong order.
pub fn corrected_duration(
    duration: f64,
    hits: u32,
    cost: Interval,
) -> Result<Interval, InputError> {
    not_negative("duration", duration)?;
    not_negative("lowest cost of a probe", cost.low)?;
    not_negative("range of the cost of a probe", cost.high - cost.low)?;
    let hits = f64::from(hits);
    Ok(Interval {
        low: (duration - hits * cost.high).max(0.0),
        high: (duration - hits * cost.low).max(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correction_larger_than_the_duration_leaves_zero() {
        let cost = Interval {
            low: 0.2,
            high: 0.3,
        };

        let corrected = corrected_duration(1.0, 4, cost).unwrap();

        assert_eq!(corrected.low, 0.0);
        assert!((corrected.high - 0.2).abs() < 1e-12);
    }

    #[test]
    fn limits_in_the_wrong_order_are_refused() {
        let cost = Interval {
            low: 0.3,
            high: 0.2,
        };

        assert!(corrected_duration(1.0, 4, cost).is_err());
    }
}
