//! What the kernel ran beside threads while recording, counted: late or not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Activity, Cpu, Nanos};

/// Every interrupt handler, softirq, timer function and work item that ran on
/// the recorded CPUs.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct HandlerCounts {
    /// Since when all were counted, `CLOCK_MONOTONIC`: a little before measuring
    /// began.
    pub from_ns: Nanos,
    /// Until when.
    pub to_ns: Nanos,
    /// On how many CPUs.
    pub cpus: u64,
    /// Whether it would be seen what the hypervisor takes; without one there is
    /// nothing to take.
    pub stolen_is_seen: bool,
    /// Who ran, by sort and number.
    pub handlers: Vec<HandlerCount>,
    /// What is missing above: sorts for which there was no room, and runs that
    /// were not seen to begin or to end.
    pub missing: MissingRuns,
}

/// Runs that are not counted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct MissingRuns {
    /// How many.
    pub runs: u64,
    /// None of them took longer than this; absent: that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub none_longer_ns: Option<Nanos>,
}

/// One sort of handler.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct HandlerCount {
    /// What ran.
    pub activity: Activity,
    /// How often, from its beginning to its end.
    pub count: u64,
    /// How long all of them took. Interrupts in between are not in it; in that of
    /// an interrupt or softirq is what it called; in that of a work item is what
    /// it slept and waited.
    pub total_ns: Nanos,
    /// The longest.
    pub longest_ns: Nanos,
    /// When that one began, `CLOCK_MONOTONIC`.
    pub longest_at_ns: Nanos,
    /// Where.
    pub longest_cpu: Cpu,
    /// How long the longest took at least, without what the hypervisor may have
    /// taken meanwhile.
    pub longest_own_ns: Nanos,
    /// How many took how long, from the shortest on.
    pub times: Vec<HandlerTimes>,
}

/// How many took so long.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct HandlerTimes {
    /// Shorter than this, and no shorter than the entry before.
    pub below_ns: Nanos,
    /// How many.
    pub count: u64,
}

impl HandlerCount {
    /// What `share` (0 to 1) of all took at most: the end of their bucket, and
    /// never more than the longest. `None`: none has ended.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let counts = self.times.iter().map(|one| one.count);
        let all = counts.fold(0, u64::saturating_add);
        let wanted = (share * all as f64).ceil().max(1.0);
        let mut seen = 0_u64;
        let found = self.times.iter().find(|one| {
            seen = seen.saturating_add(one.count);
            seen as f64 >= wanted
        });
        found.map(|one| one.below_ns.min(self.longest_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_end_of_its_bucket_and_never_more_than_the_longest() {
        let times = |below, count| HandlerTimes {
            below_ns: Nanos::from_us(below),
            count,
        };
        let mut one = HandlerCount {
            activity: Activity::Softirq(3),
            count: 1_000,
            total_ns: Nanos::from_ms(5),
            longest_ns: Nanos::from_us(90),
            longest_at_ns: Nanos::ZERO,
            longest_cpu: Cpu(0),
            longest_own_ns: Nanos::from_us(90),
            times: vec![times(4, 998), times(40, 1), times(96, 1)],
        };

        assert_eq!(one.quantile(0.5), Some(Nanos::from_us(4)));
        assert_eq!(one.quantile(0.999), Some(Nanos::from_us(40)));
        assert_eq!(one.quantile(1.0), Some(Nanos::from_us(90)));
        // As nobody counts, and a damaged file may say.
        one.times = vec![times(4, u64::MAX), times(40, u64::MAX)];
        assert_eq!(one.quantile(1.0), Some(Nanos::from_us(4)));
        one.times.clear();
        assert_eq!(one.quantile(0.5), None);
    }
}
