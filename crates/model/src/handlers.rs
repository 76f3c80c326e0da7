//! Counts of the kernel's activity in addition to threads during a recording.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Activity, Cpu, Nanos};

/// Counts of interrupt handlers, softirqs, timer functions and work items on the
/// recorded CPUs.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct HandlerCounts {
    /// Start of the counting, `CLOCK_MONOTONIC`: a little before the measurement.
    pub from_ns: Nanos,
    /// End of the counting.
    pub to_ns: Nanos,
    /// Number of CPUs.
    pub cpus: u64,
    /// Whether steal time would be detected; true without a hypervisor.
    pub stolen_is_seen: bool,
    /// Handlers, by kind and number.
    pub handlers: Vec<HandlerCount>,
    /// Missing data: kinds that did not fit, and runs without a recorded start or end.
    pub missing: MissingRuns,
}

/// Runs that are not counted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct MissingRuns {
    /// Number of runs.
    pub runs: u64,
    /// Maximum duration of these runs; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub none_longer_ns: Option<Nanos>,
}

/// Counts of a handler.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct HandlerCount {
    /// Handler.
    pub activity: Activity,
    /// Number of complete runs.
    pub count: u64,
    /// Total duration, without interrupts in between. For an interrupt or softirq it
    /// includes the functions that it called; for a work item, its sleeps and waits.
    pub total_ns: Nanos,
    /// Longest run.
    pub longest_ns: Nanos,
    /// Start of the longest run, `CLOCK_MONOTONIC`.
    pub longest_at_ns: Nanos,
    /// CPU of the longest run.
    pub longest_cpu: Cpu,
    /// Minimum duration of the longest run, without possible steal time.
    pub longest_own_ns: Nanos,
    /// Distribution of the durations, shortest first.
    pub times: Vec<HandlerTimes>,
}

/// Number of runs in a range of durations.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct HandlerTimes {
    /// Exclusive upper limit; the lower limit is the limit of the previous entry.
    pub below_ns: Nanos,
    /// Number of runs.
    pub count: u64,
}

impl HandlerCount {
    /// Returns the duration that a fraction `share` (0 to 1) of the runs did not
    /// exceed: the end of the bucket, at most the longest. `None` without runs.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let counts = self.times.iter().map(|bucket| bucket.count);
        let total = counts.fold(0, u64::saturating_add);
        let wanted = (share * total as f64).ceil().max(1.0);
        let mut passed = 0_u64;
        let bin = self.times.iter().find(|entry| {
            passed = passed.saturating_add(entry.count);
            passed as f64 >= wanted
        });
        bin.map(|bucket| bucket.below_ns.min(self.longest_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_the_end_of_its_bucket_and_at_most_the_longest() {
        let times = |below, count| HandlerTimes {
            below_ns: Nanos::from_us(below),
            count,
        };
        let mut count = HandlerCount {
            activity: Activity::Softirq(3),
            count: 1_000,
            total_ns: Nanos::from_ms(5),
            longest_ns: Nanos::from_us(90),
            longest_at_ns: Nanos::ZERO,
            longest_cpu: Cpu(0),
            longest_own_ns: Nanos::from_us(90),
            times: vec![times(4, 998), times(40, 1), times(96, 1)],
        };

        assert_eq!(count.quantile(0.5), Some(Nanos::from_us(4)));
        assert_eq!(count.quantile(0.999), Some(Nanos::from_us(40)));
        assert_eq!(count.quantile(1.0), Some(Nanos::from_us(90)));
        // An impossible count that a damaged file may contain.
        count.times = vec![times(4, u64::MAX), times(40, u64::MAX)];
        assert_eq!(count.quantile(1.0), Some(Nanos::from_us(4)));
        count.times.clear();
        assert_eq!(count.quantile(0.5), None);
    }
}
