//! A count against its limit: whether what was seen shows that no more is to be
//! expected, or that more is.
//!
//! Each limit of the expected count is one-sided, so of a count at its limit
//! either verdict is wrong with at most the chance that the confidence leaves.
//! They are the widest of three: those of clusters (`clusters.rs`); Garwood's
//! (1936) of as many independent events as the clusters stand for, which hold
//! also where those are few; and for the upper one the same of clusters that are
//! as large as others are.
//!
//! A recording without any event does not show how large a cluster is. Its upper
//! limit holds only for clusters up to a size that the caller states; zero events
//! bound a count by 2.9957 clusters at 95 %. [`AgainstLimit::holds_to`] is the
//! largest size for which the count is still within its limit.

use super::clusters::{Clusters, clustered_interval};
use super::rate::{rate_interval, rate_upper_limit};
use crate::input::{between, not_negative, positive};
use crate::{InputError, Interval};

/// Limits that differ by less are the same. With it 299,573 independent samples
/// without any beyond show at 95 % that no more than one in 100,000 is: -ln 0.05
/// of 100,000 is 299,573.2.
const SAME: f64 = 1e-6;
/// Nobody waits for so many times as long as was recorded.
const LONGEST: f64 = 1e6;

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tallied {
    /// So many surely.
    pub least: f64,
    /// So many where all counts that is not known.
    pub most: f64,
    /// The independent events behind them; `None` where none is known.
    pub clusters: Option<Clusters>,
    /// Events in one cluster, at most, for the upper limit. If few or no events were
    /// seen, they do not show how large their clusters are: the caller must state it.
    pub together: f64,
}

/// Conversion between the length of a stall and the number of wakeups that it makes
/// late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StallSize {
    /// Latency above which a wakeup is late, ns.
    pub limit_ns: f64,
    /// Mean time between two wakeups of all CPUs together, ns: a stall may stop every
    /// CPU.
    pub apart_ns: f64,
}

impl StallSize {
    /// Returns the number of late wakeups in a stall of this length, at least 1: those
    /// that expire while more than the limit is left of it.
    pub fn wakeups(&self, length_ns: f64) -> f64 {
        ((length_ns - self.limit_ns) / self.apart_ns).max(1.0)
    }

    /// Returns the length of a stall that makes this number of wakeups late, ns.
    pub fn length_ns(&self, wakeups: f64) -> f64 {
        self.limit_ns + wakeups * self.apart_ns
    }
}

/// What a count says of its limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LimitVerdict {
    /// No more is to be expected.
    Within,
    /// More is.
    Beyond,
    /// Either can be.
    Unclear,
}

/// A count, compared with its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgainstLimit {
    /// The limit.
    pub limit: f64,
    /// Where the expected count lies; each end at the confidence by itself.
    pub interval: Interval,
    /// What that means.
    pub verdict: LimitVerdict,
    /// How many times as long it takes to tell, if it goes on as it was; `None`
    /// where that is told already, or would take a million times as long.
    pub times: Option<f64>,
    /// Largest cluster, in events, for which the count would be within its limit;
    /// `None` if it is not within it even for clusters of one event.
    pub holds_to: Option<f64>,
}

/// Compares the expected count behind `seen` with the `limit` of it in the same
/// exposure.
///
/// # Errors
/// When a number is out of its range; the confidence must be above a half.
pub fn against_limit(
    seen: &Tallied,
    limit: f64,
    confidence: f64,
) -> Result<AgainstLimit, InputError> {
    not_negative("least count", seen.least)?;
    not_negative("largest count", seen.most)?;
    positive("limit", limit)?;
    positive("how many come together", seen.together)?;
    between(
        "confidence",
        confidence,
        (0.5, 1.0),
        "above 0.5 and below 1",
    )?;
    let interval = seen.limits(confidence)?;
    let verdict = verdict(interval, limit);
    let times = match verdict {
        LimitVerdict::Unclear => times(seen, limit, confidence)?,
        LimitVerdict::Within | LimitVerdict::Beyond => None,
    };
    Ok(AgainstLimit {
        limit,
        interval,
        verdict,
        times,
        holds_to: holds_to(seen, limit, confidence)?,
    })
}

/// Returns the largest cluster size for which `seen` is within the limit. The upper
/// limit grows with the size, so that this is a bisection.
fn holds_to(seen: &Tallied, limit: f64, confidence: f64) -> Result<Option<f64>, InputError> {
    let of_seen = seen.limits_of_clusters(confidence)?;
    let is_within = |together: f64| -> Result<bool, InputError> {
        let seen = Tallied { together, ..*seen };
        let high = of_seen.high.max(seen.limit_of_size(confidence)?);
        Ok(high <= limit * (1.0 + SAME))
    };
    if !is_within(1.0)? {
        return Ok(None);
    }
    // At a confidence above 0.5, zero events are bounded by more than 0.69 clusters.
    let (mut below, mut above) = (1.0, 2.0 * limit.max(1.0));
    if is_within(above)? {
        return Ok(Some(above));
    }
    while above / below > 1.0 + SAME {
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
    if interval.high <= limit * (1.0 + SAME) {
        LimitVerdict::Within
    } else if interval.low > limit * (1.0 + SAME) {
        LimitVerdict::Beyond
    } else {
        LimitVerdict::Unclear
    }
}

/// How many times as much must be seen of the same.
fn times(seen: &Tallied, limit: f64, confidence: f64) -> Result<Option<f64>, InputError> {
    let is_told = |times: f64| -> Result<bool, InputError> {
        let interval = seen.repeated(times).limits(confidence)?;
        Ok(verdict(interval, limit * times) != LimitVerdict::Unclear)
    };
    let (mut below, mut above) = (1.0, 2.0);
    while !is_told(above)? {
        (below, above) = (above, 2.0 * above);
        if above > LONGEST {
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
            clusters: self.clusters.map(|one| Clusters {
                count: one.count * times,
                freedom: one.freedom * times,
                ..one
            }),
            together: self.together,
        }
    }

    fn limits(&self, confidence: f64) -> Result<Interval, InputError> {
        let of_seen = self.limits_of_clusters(confidence)?;
        Ok(Interval {
            high: of_seen.high.max(self.limit_of_size(confidence)?),
            ..of_seen
        })
    }

    /// Upper limit for clusters of the size `together`.
    fn limit_of_size(&self, confidence: f64) -> Result<f64, InputError> {
        let clusters = rate_upper_limit(self.most / self.together, 1.0, confidence)?;
        Ok(clusters * self.together)
    }

    /// Limits from the clusters that were seen; from 0 to 0 without any.
    fn limits_of_clusters(&self, confidence: f64) -> Result<Interval, InputError> {
        let both = 2.0 * confidence - 1.0;
        let Some(clusters) = self.clusters else {
            return Ok(Interval {
                low: 0.0,
                high: 0.0,
            });
        };
        let independent = clusters.count / (1.0 + clusters.variation);
        let exact = rate_interval(independent, 1.0, both)?;
        let of = |sum: f64| clustered_interval(sum, Some(clusters), both);
        let each = |sum: f64| sum / independent;
        Ok(Interval {
            low: of(self.least)?.low.min(exact.low * each(self.least)),
            high: of(self.most)?.high.max(exact.high * each(self.most)),
        })
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
            }),
            together: 1.0,
        }
    }

    /// Of `samples` none was beyond, and one in 100,000 may be.
    fn of_none(samples: u32, together: f64) -> AgainstLimit {
        against_limit(&none(together), f64::from(samples) * 1e-5, 0.95).unwrap()
    }

    #[test]
    fn one_in_100_000_takes_299_573_samples_without_any_and_not_one_fewer() {
        assert_eq!(of_none(299_573, 1.0).verdict, LimitVerdict::Within);
        let fewer = of_none(299_572, 1.0);
        assert_eq!(fewer.verdict, LimitVerdict::Unclear);
        assert!(fewer.times.unwrap() < 1.002, "{fewer:?}");
    }

    #[test]
    fn samples_that_come_by_threes_count_for_a_third() {
        assert_eq!(of_none(299_573, 3.0).verdict, LimitVerdict::Unclear);
        assert_eq!(of_none(898_719, 3.0).verdict, LimitVerdict::Within);
    }

    /// 60,000 wakeups and a limit of 48 late ones: zero events bound stalls of
    /// 48 / 2.9957 = 16.02 wakeups, and no longer ones.
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
    fn size_of_a_stall_is_the_wakeups_that_expire_before_its_last_part() {
        let stall = StallSize {
            limit_ns: 20e6,
            apart_ns: 10e6,
        };

        assert_eq!(stall.wakeups(520e6), 50.0);
        assert_eq!(stall.wakeups(21e6), 1.0);
        assert_eq!(stall.length_ns(50.0), 520e6);
    }

    #[test]
    fn what_is_not_known_counts_against_both_verdicts() {
        let lost = |least: f64, most: f64| {
            let seen = Tallied {
                most,
                ..some(least)
            };
            against_limit(&seen, 30.0, 0.95).unwrap().verdict
        };

        assert_eq!(lost(10.0, 10.0), LimitVerdict::Within);
        assert_eq!(lost(10.0, 40.0), LimitVerdict::Unclear);
        assert_eq!(lost(60.0, 60.0), LimitVerdict::Beyond);
        assert_eq!(lost(38.0, 60.0), LimitVerdict::Unclear);
        let only_lost = Tallied {
            most: 30.0,
            ..none(1.0)
        };
        let found = against_limit(&only_lost, 25.0, 0.95).unwrap();
        assert_eq!(found.verdict, LimitVerdict::Unclear);
    }

    #[test]
    fn at_the_limit_itself_no_time_tells() {
        let found = against_limit(&some(30.0), 30.0, 0.95).unwrap();

        assert_eq!((found.verdict, found.times), (LimitVerdict::Unclear, None));
    }

    #[test]
    fn so_much_longer_tells_it() {
        for count in [0.5, 20.0, 45.0] {
            let found = against_limit(&some(count), 30.0, 0.999).unwrap();
            let Some(times) = found.times else {
                assert_ne!(found.verdict, LimitVerdict::Unclear);
                continue;
            };

            let longer = against_limit(&some(count).repeated(times), 30.0 * times, 0.999).unwrap();

            assert_ne!(longer.verdict, LimitVerdict::Unclear, "{count}: {found:?}");
        }
    }

    #[test]
    fn numbers_out_of_their_range_are_refused() {
        assert!(against_limit(&none(1.0), 0.0, 0.95).is_err());
        assert!(against_limit(&none(1.0), 1.0, 0.5).is_err());
        assert!(against_limit(&none(0.0), 1.0, 0.95).is_err());
    }

    proptest! {
        #[test]
        fn what_was_seen_lies_in_its_interval(count in 0.5..3_000.0_f64) {
            let found = against_limit(&some(count), 1.0, 0.95).unwrap();
            prop_assert!(found.interval.contains(count), "{found:?}");
        }
    }
}
