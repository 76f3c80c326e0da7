//! Throughput: how much work a load did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Nanos;

/// How much work a load did, and in what time.
///
/// Recorded beside the latencies because it does not show them: two systems
/// of equal throughput can differ by an order of magnitude in latency
/// (OSDI'99 4.2).
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Throughput {
    /// What was counted, in the plural: `frames`, `bytes`.
    pub unit: String,
    /// How many of them.
    pub count: u64,
    /// How long it took.
    pub elapsed_ns: Nanos,
}

impl Throughput {
    /// Work in a second, or `None` where no time passed.
    pub fn per_second(&self) -> Option<f64> {
        (self.elapsed_ns > Nanos::ZERO).then(|| self.count as f64 / self.elapsed_ns.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_gives_no_rate() {
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
