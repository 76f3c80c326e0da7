//! Tail: rate and size of exceedances of a threshold.

use super::Pareto;
use crate::InputError;
use crate::input::positive;

/// Clusters with peaks above `threshold` at `rate` per ns and excesses that follow
/// `excess`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// Threshold, ns.
    pub threshold: f64,
    /// Clusters above the threshold per ns.
    pub rate: f64,
    /// Distribution of their excesses.
    pub excess: Pareto,
}

impl Tail {
    /// Returns the return level: the level that peaks exceed once per `horizon` on
    /// average. The tail does not describe levels below the threshold.
    ///
    /// # Errors
    /// If `horizon` is so short that the level lies below the threshold.
    pub fn return_level(self, horizon: f64) -> Result<f64, InputError> {
        let times = self.rate * positive("horizon", horizon)?;
        if times.is_nan() || times < 1.0 {
            return Err(InputError::OutOfRange {
                name: "expected number of peaks above the threshold",
                value: times,
                range: "at least 1; take a lower threshold",
            });
        }
        Ok(self.threshold + self.excess.exceeded_once_in(times))
    }

    /// Returns the expected number of peaks above `level` in `horizon`, for a level at
    /// or above the threshold.
    pub fn expected_above(self, level: f64, horizon: f64) -> f64 {
        self.rate * horizon * self.excess.survival(level - self.threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    proptest! {
        #[test]
        fn levels_rise_with_the_horizon_and_are_exceeded_once_in_it(
            shape in -0.4..0.45_f64, rate in 1.0..100.0_f64, horizon in 5.0..1e4_f64,
        ) {
            let excess = Pareto::new(2.0, shape);
            let tail = Tail { threshold: 5.0, rate, excess };
            let level = tail.return_level(horizon).unwrap();
            prop_assert!(level < tail.return_level(horizon * 2.0).unwrap());
            prop_assert!((tail.expected_above(level, horizon) - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn level_below_the_threshold_is_refused() {
        let excess = Pareto::new(2.0, 0.0);
        let tail = Tail {
            threshold: 5.0,
            rate: 1.0,
            excess,
        };

        assert!(tail.return_level(0.5).is_err());
    }
}
