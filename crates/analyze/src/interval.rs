//! A confidence interval.

/// From `low` to `high`, both of what is estimated: ns, or events per ns.
///
/// `high` is infinite where the data set no upper limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower limit.
    pub low: f64,
    /// The upper limit; never below `low`.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies inside, limits included.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The interval of `1 / x` for an `x` in this interval of positive
    /// numbers: rates to mean times and back.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self {
            low: 1.0 / self.high,
            high: 1.0 / self.low,
        }
    }
}
