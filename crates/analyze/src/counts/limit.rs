//! Comparison of a count with its limit: whether the expected count is within it or
//! beyond.
//!
//! Each limit of the expected count is one-sided. For a count at its limit, either
//! verdict is therefore wrong with at most the probability that the confidence leaves.
//! The limits are the widest of three: the limits of clusters (`clusters.rs`);
//! Garwood's (1936) limits of the number of independent events behind the clusters,
//! which also hold for few clusters; and for the upper limit, the limit of clusters of
//! an assumed size.
//!
//! A recording without events does not show how large a cluster is. Its upper limit
//! holds only for clusters up to a size that the caller states; zero events bound a
//! count by 2.9957 clusters at 95 %. [`AgainstLimit::holds_to`] is the largest size that keeps the
//! count within its limit.

use super::clusters::{Clusters, clustered_interval};
use super::rate::{rate_interval, rate_upper_limit};
use crate::input::{between, not_negative, positive};
use crate::{InputError, Interval};

/// Relative difference below which limits are equal. With it, 299,573 independent
/// samples without an exceedance show at 95 % that at most one in 100,000 exceeds: -ln
/// 0.05 times 100,000 is 299,573.2.
const MIN_RELATIVE_DIFFERENCE: f64 = 1e-6;
/// Largest multiple of the recorded time that is reported as the time to a verdict.
const MAX_TIMES: f64 = 1e6;

/// Observed count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tallied {
    /// Certain part of the count.
    pub least: f64,
    /// Count including all uncertain events.
    pub most: f64,
    /// Independent events behind the count; `None` if unknown.
    pub clusters: Option<Clusters>,
    /// Maximum number of events in one cluster, for the upper limit. Few or no events
    /// do not show the size of their clusters, so the caller must state it.
    pub together: f64,
}

/// Conversion between the length of a stall and the number of wakeups that it makes
/// late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StallSize {
    /// Maximum latency of a wakeup that is not late, ns.
    pub limit_ns: f64,
    /// Mean time between two wakeups of all CPUs together, ns: a stall may stop every
    /// CPU.
    pub apart_ns: f64,
}

impl StallSize {
    /// Returns the number of late wakeups in a stall of this length (at least 1): wakeups that
    /// expire while more than the limit is left of the stall.
    pub fn wakeups(&self, length_ns: f64) -> f64 {
        ((length_ns - self.limit_ns) / self.apart_ns).max(1.0)
    }

    /// Returns the length of a stall that makes this number of wakeups late, ns.
    pub fn length_ns(&self, wakeups: f64) -> f64 {
        self.limit_ns + wakeups * self.apart_ns
    }
}

/// Confidence of either verdict on a count and its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VerdictConfidence {
    /// Confidence that the expected count is within the limit.
    pub within: f64,
    /// Confidence that it is beyond.
    pub beyond: f64,
}

impl From<f64> for VerdictConfidence {
    fn from(confidence: f64) -> Self {
        Self {
            within: confidence,
            beyond: confidence,
        }
    }
}

/// Verdict on a count and its limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LimitVerdict {
    /// The expected count is within the limit.
    Within,
    /// The expected count is beyond the limit.
    Beyond,
    /// Either is possible.
    Unclear,
}

/// Comparison of a count with its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgainstLimit {
    /// Limit of the expected count.
    pub limit: f64,
    /// Interval of the expected count; each end separately has the confidence.
    pub interval: Interval,
    /// Verdict.
    pub verdict: LimitVerdict,
    /// Multiple of the recorded time until a verdict, if the rate stays the same;
    /// `None` if there is a verdict already, or if it would take a million times the recorded time.
    pub times: Option<f64>,
    /// Largest cluster, in events, that would keep the count within its limit; `None` if it is not
    /// within it even for clusters of one event.
    pub holds_to: Option<f64>,
}

/// Compares the expected count behind `tallied` with the `limit` of it in the same
/// exposure.
///
/// # Errors
/// If a number is out of its range. The confidence must be above a half.
pub fn against_limit(
    tallied: &Tallied,
    limit: f64,
    confidence: impl Into<VerdictConfidence>,
) -> Result<AgainstLimit, InputError> {
    let confidence = confidence.into();
    not_negative("least count", tallied.least)?;
    not_negative("largest count", tallied.most)?;
    positive("limit", limit)?;
    positive("how many come together", tallied.together)?;
    for confidence in [confidence.within, confidence.beyond] {
        between(
            "confidence",
            confidence,
            (0.5, 1.0),
            "above 0.5 and below 1",
        )?;
    }
    let interval = tallied.limits(confidence)?;
    let verdict = verdict(interval, limit);
    let times = match verdict {
        LimitVerdict::Unclear => times(tallied, limit, confidence)?,
        LimitVerdict::Within | LimitVerdict::Beyond => None,
    };
    Ok(AgainstLimit {
        limit,
        interval,
        verdict,
        times,
        holds_to: holds_to(tallied, limit, confidence.within)?,
    })
}

/// Returns the largest cluster size that keeps `count` within the limit. The upper limit grows with
/// the size, so this is a bisection.
fn holds_to(count: &Tallied, limit: f64, confidence: f64) -> Result<Option<f64>, InputError> {
    let of_seen = count.limits_of_clusters(confidence)?;
    let is_within = |together: f64| -> Result<bool, InputError> {
        let tallied = Tallied { together, ..*count };
        let high = of_seen.high.max(tallied.limit_of_size(confidence)?);
        Ok(high <= limit * (1.0 + MIN_RELATIVE_DIFFERENCE))
    };
    if !is_within(1.0)? {
        return Ok(None);
    }
    // At a confidence above 0.5, zero events are bounded by more than 0.69 clusters.
    let (mut below, mut above) = (1.0, 2.0 * limit.max(1.0));
    if is_within(above)? {
        return Ok(Some(above));
    }
    while above / below > 1.0 + MIN_RELATIVE_DIFFERENCE {
        let middle = f64::midpoint(below, above);
        if is_within(middle)? {
            below = middle;
        } else {
            above = middle;
        }
    }
    Ok(Some(below))
}

fn verdict(interval: Interval, limit: f64) -> LimitVerdict {
    if interval.high <= limit * (1.0 + MIN_RELATIVE_DIFFERENCE) {
        LimitVerdict::Within
    } else if interval.low > limit * (1.0 + MIN_RELATIVE_DIFFERENCE) {
        LimitVerdict::Beyond
    } else {
        LimitVerdict::Unclear
    }
}

/// Returns the multiple of the same data that a verdict needs.
fn times(
    tallied: &Tallied,
    limit: f64,
    confidence: VerdictConfidence,
) -> Result<Option<f64>, InputError> {
    let is_told = |times: f64| -> Result<bool, InputError> {
        let interval = tallied.repeated(times).limits(confidence)?;
        Ok(verdict(interval, limit * times) != LimitVerdict::Unclear)
    };
    let (mut below, mut above) = (1.0, 2.0);
    while !is_told(above)? {
        (below, above) = (above, 2.0 * above);
        if above > MAX_TIMES {
            return Ok(None);
        }
    }
    while above / below > 1.001 {
        let middle = f64::midpoint(below, above);
        if is_told(middle)? {
            above = middle
        } else {
            below = middle
        }
    }
    Ok(Some(above))
}

impl Tallied {
    fn repeated(&self, times: f64) -> Self {
        Self {
            least: self.least * times,
            most: self.most * times,
            clusters: self.clusters.map(|clusters| Clusters {
                count: clusters.count * times,
                freedom: clusters.freedom * times,
                slow: clusters.slow.map(|slow| slow.repeated(times)),
                ..clusters
            }),
            together: self.together,
        }
    }

    fn limits(&self, confidence: VerdictConfidence) -> Result<Interval, InputError> {
        let of_seen = self.limits_of_clusters(confidence.within)?;
        let low = if confidence.within == confidence.beyond {
            of_seen.low
        } else {
            self.limits_of_clusters(confidence.beyond)?.low
        };
        Ok(Interval::new(
            low,
            of_seen.high.max(self.limit_of_size(confidence.within)?),
        ))
    }

    /// Returns the upper limit for clusters of the size `together`.
    fn limit_of_size(&self, confidence: f64) -> Result<f64, InputError> {
        let clusters = rate_upper_limit(self.most / self.together, 1.0, confidence)?;
        Ok(clusters * self.together)
    }

    /// Returns the limits from the observed clusters; from 0 to 0 without any.
    fn limits_of_clusters(&self, confidence: f64) -> Result<Interval, InputError> {
        let both = 2.0 * confidence - 1.0;
        let Some(clusters) = self.clusters else {
            return Ok(Interval::new(0.0, 0.0));
        };
        let independent = clusters.count / (1.0 + clusters.variation);
        let exact = rate_interval(independent, 1.0, both)?;
        let interval_of = |sum: f64| clustered_interval(sum, Some(clusters), both);
        let each = |sum: f64| sum / independent;
        Ok(Interval::new(
            interval_of(self.least)?
                .low
                .min(exact.low * each(self.least)),
            interval_of(self.most)?
                .high
                .max(exact.high * each(self.most)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    fn none(together: f64) -> Tallied {
        Tallied {
            least: 0.0,
            most: 0.0,
            clusters: None,
            together,
        }
    }

    fn some(count: f64) -> Tallied {
        Tallied {
            least: count,
            most: count,
            clusters: Some(Clusters {
                count,
                variation: 0.5 / count,
                freedom: f64::INFINITY,
                slow: None,
            }),
            together: 1.0,
        }
    }

    /// Evaluates `samples` without an exceedance against a limit of one in 100,000.
    fn of_none(samples: u32, together: f64) -> AgainstLimit {
        against_limit(&none(together), f64::from(samples) * 1e-5, 0.95).unwrap()
    }

    #[test]
    fn one_in_100_000_needs_299_573_samples_without_exceedance() {
        assert_eq!(of_none(299_573, 1.0).verdict, LimitVerdict::Within);
        let fewer = of_none(299_572, 1.0);
        assert_eq!(fewer.verdict, LimitVerdict::Unclear);
        assert!(fewer.times.unwrap() < 1.002, "{fewer:?}");
    }

    #[test]
    fn samples_in_clusters_of_three_count_as_a_third() {
        assert_eq!(of_none(299_573, 3.0).verdict, LimitVerdict::Unclear);
        assert_eq!(of_none(898_719, 3.0).verdict, LimitVerdict::Within);
    }

    /// 60,000 wakeups and a limit of 48 late ones: zero events bound stalls of 48 /
    /// 2.9957 = 16.02 wakeups, and no longer ones.
    #[test]
    fn zero_events_hold_for_clusters_of_a_third_of_the_limit() {
        let verdict = |together: f64| against_limit(&none(together), 48.0, 0.95).unwrap();

        assert_eq!(verdict(16.0).verdict, LimitVerdict::Within);
        assert_eq!(verdict(16.1).verdict, LimitVerdict::Unclear);
        let holds_to = verdict(100.0).holds_to.unwrap();
        assert!((holds_to - 48.0 / 2.995_732).abs() < 1e-3, "{holds_to}");
        assert_eq!(against_limit(&none(1.0), 2.9, 0.95).unwrap().holds_to, None);
    }

    #[test]
    fn stall_size_is_the_wakeups_that_expire_before_its_last_part() {
        let stall = StallSize {
            limit_ns: 20e6,
            apart_ns: 10e6,
        };

        assert_eq!(stall.wakeups(520e6), 50.0);
        assert_eq!(stall.wakeups(21e6), 1.0);
        assert_eq!(stall.length_ns(50.0), 520e6);
    }

    #[test]
    fn uncertain_events_count_against_both_verdicts() {
        let lost = |least: f64, most: f64| {
            let tallied = Tallied {
                most,
                ..some(least)
            };
            against_limit(&tallied, 30.0, 0.95).unwrap().verdict
        };

        assert_eq!(lost(10.0, 10.0), LimitVerdict::Within);
        assert_eq!(lost(10.0, 40.0), LimitVerdict::Unclear);
        assert_eq!(lost(60.0, 60.0), LimitVerdict::Beyond);
        assert_eq!(lost(38.0, 60.0), LimitVerdict::Unclear);
        let only_lost = Tallied {
            most: 30.0,
            ..none(1.0)
        };
        let verdict = against_limit(&only_lost, 25.0, 0.95).unwrap();
        assert_eq!(verdict.verdict, LimitVerdict::Unclear);
    }

    #[test]
    fn count_at_the_limit_never_gets_a_verdict() {
        let verdict = against_limit(&some(30.0), 30.0, 0.95).unwrap();

        assert_eq!(
            (verdict.verdict, verdict.times),
            (LimitVerdict::Unclear, None)
        );
    }

    #[test]
    fn reported_multiple_of_the_time_gives_a_verdict() {
        for count in [0.5, 20.0, 45.0] {
            let verdict = against_limit(&some(count), 30.0, 0.999).unwrap();
            let Some(times) = verdict.times else {
                assert_ne!(verdict.verdict, LimitVerdict::Unclear);
                continue;
            };

            let longer = against_limit(&some(count).repeated(times), 30.0 * times, 0.999).unwrap();

            assert_ne!(
                longer.verdict,
                LimitVerdict::Unclear,
                "{count}: {verdict:?}"
            );
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert!(against_limit(&none(1.0), 0.0, 0.95).is_err());
        assert!(against_limit(&none(1.0), 1.0, 0.5).is_err());
        assert!(against_limit(&none(0.0), 1.0, 0.95).is_err());
    }

    proptest! {
        #[test]
        fn interval_contains_the_observed_count(count in 0.5..3_000.0_f64) {
            let verdict = against_limit(&some(count), 1.0, 0.95).unwrap();
            prop_assert!(verdict.interval.contains(count), "{verdict:?}");
        }
    }
}
