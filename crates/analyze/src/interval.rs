//! Confidence interval.

/// Interval from `low` to `high` in the unit of the estimate: ns, or events per ns.
///
/// `high` is infinite if the data set no upper limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower limit.
    pub low: f64,
    /// Upper limit; never below `low`.
    pub high: f64,
}

impl Interval {
    /// Returns the interval with these limits.
    #[must_use]
    pub const fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// Returns whether `value` lies inside, limits included.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Returns the interval of `1 / x` for an `x` in this interval of positive numbers:
    /// rates to mean times and back.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self {
            low: 1.0 / self.high,
            high: 1.0 / self.low,
        }
    }
}
