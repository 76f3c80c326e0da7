//! Throughput: the work of a load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Work of a load in a time.
///
/// Recorded with the latencies because it does not show them: two systems of equal
/// throughput can differ by an order of magnitude in latency (OSDI'99 4.2).
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Throughput {
    /// Unit, in the plural: `frames`, `bytes`.
    pub unit: String,
    /// Number of units.
    pub count: u64,
    /// Elapsed time.
    pub elapsed_ns: Nanos,
}

impl Throughput {
    /// Returns the work per second, or `None` if no time elapsed.
    pub fn per_second(&self) -> Option<f64> {
        (self.elapsed_ns > Nanos::ZERO).then(|| self.count as f64 / self.elapsed_ns.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_time_has_no_rate() {
        let mut work = Throughput {
            unit: "frames".into(),
            count: 30,
            elapsed_ns: Nanos::from_ms(1500),
        };

        assert_eq!(work.per_second(), Some(20.0));
        work.elapsed_ns = Nanos::ZERO;
        assert_eq!(work.per_second(), None);
    }
}
