//! Events that come in bursts, or on several CPUs at once: how many
//! independent ones are behind them, and what that leaves unknown of their
//! number.
//!
//! **Which belong together.** Events are set on a circle as long as they were
//! watched. The squares of the shares of n gaps between independent events add
//! up to 2 / (n + 1) on average (Greenwood 1946; Moran 1947). Gaps within a
//! burst add next to nothing, so the sum says how many clusters there are; as
//! many of the largest gaps lie between them (as Ferro & Segers 2003, section
//! 4, take them for exceedances, from the same second moment).
//!
//! **How much their number varies.** Clusters come at random (Poisson); their
//! sizes vary as was seen. That is set against the sums of 20 windows of the
//! time, which notice also bursts that overlap: the larger counts.
//!
//! **The interval** is that of a rate and a mean size together. Given n, the
//! rate's mid-p interval (Lancaster 1961; Cohen & Yang 1994) takes half of
//! Garwood's two gamma distributions each, of shapes n and n + 1; the sum of n
//! sizes, gamma-distributed ones, is a gamma variable of shape n / variation.
//! The quotient of two gamma variables follows a beta distribution (of the
//! second kind), or F. For clusters of one size it is the mid-p interval of
//! a Poisson rate.

use statrs::distribution::{ContinuousCDF, Normal};
use statrs::function::beta::beta_reg;

use crate::input::{ascending, between, not_negative, positive, probability};
use crate::sample::{mean, variance};
use crate::solve::root_between;
use crate::{InputError, Interval};

/// Windows whose sums are compared.
const WINDOWS: usize = 20;
/// The variance over windows counts for this much more: from 20 of them it is
/// as often too small as too large. Chosen so that bursts of one size and of
/// geometrically varying size are covered alike.
const CAUTION: f64 = 1.1;
/// The variation of sizes that one size tells nothing of; of n it is the nth
/// part that is added.
const PRIOR: f64 = 0.5;
/// With more clusters than this the interval is the normal one of a logarithm.
const MANY: f64 = 10_000.0;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// When it came.
    pub at: f64,
    /// What it counts for.
    pub size: f64,
}

/// The independent events behind others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clusters {
    /// How many there are; fewer where they crowd by themselves, so it need
    /// not be whole.
    pub count: f64,
    /// The variance of their sizes over the square of their mean.
    pub variation: f64,
}

impl Clusters {
    /// The clusters of `events`, which ascend in time, in a `span` that begins
    /// at zero; `None` without any event.
    ///
    /// # Errors
    /// When events do not ascend, lie outside the span or have no size.
    pub fn of(events: &[Event], span: f64) -> Result<Option<Self>, InputError> {
        positive("span", span)?;
        let times: Vec<f64> = events.iter().map(|event| event.at).collect();
        ascending("events", &times)?;
        for event in events {
            let around = (-f64::MIN_POSITIVE, span * (1.0 + f64::EPSILON));
            between("event", event.at, around, "within the span")?;
            positive("size of an event", event.size)?;
        }
        if events.is_empty() {
            return Ok(None);
        }
        let sizes = sizes(events, span);
        let (found, sum) = (sizes.len() as f64, sizes.iter().sum::<f64>());
        let known = if sizes.len() > 1 {
            variance(&sizes) / mean(&sizes).powi(2) * (found - 1.0)
        } else {
            0.0
        };
        let variation = (known + PRIOR) / found;
        let by_sizes = (1.0 + variation) / found;
        let by_windows = variance(&windows(events, span)) * WINDOWS as f64 / (sum * sum);
        Ok(Some(Self {
            count: found / (CAUTION * by_windows / by_sizes).max(1.0),
            variation,
        }))
    }

    /// The variance of a sum of events over what it would be, were it
    /// a count of `events` independent ones.
    pub fn dispersion(self, events: f64) -> f64 {
        events * (1.0 + self.variation) / self.count
    }
}

/// The sizes of the clusters.
fn sizes(events: &[Event], span: f64) -> Vec<f64> {
    let next = events.iter().skip(1).map(|event| event.at);
    let around = next.chain(events.first().map(|first| first.at + span));
    let gaps: Vec<f64> = events
        .iter()
        .zip(around)
        .map(|(event, next)| (next - event.at) / span)
        .collect();
    let squares: f64 = gaps.iter().map(|gap| gap * gap).sum();
    let found = crate::sample::index((2.0 / squares - 1.0).round());
    let found = found.clamp(1, events.len());
    let mut widest: Vec<usize> = (0..gaps.len()).collect();
    widest.sort_by(|&one, &other| gaps[other].total_cmp(&gaps[one]));
    let mut last: Vec<usize> = widest.into_iter().take(found).collect();
    last.sort_unstable();
    let mut sizes = vec![0.0; found];
    for (index, event) in events.iter().enumerate() {
        // What comes after the last end belongs to the first cluster.
        sizes[last.partition_point(|&end| end < index) % found] += event.size;
    }
    sizes
}

fn windows(events: &[Event], span: f64) -> Vec<f64> {
    let mut sums = vec![0.0; WINDOWS];
    for event in events {
        let window = crate::sample::index(event.at / span * WINDOWS as f64);
        sums[window.min(WINDOWS - 1)] += event.size;
    }
    sums
}

/// Where the expected sum of events lies of which `sum` was seen, in
/// `clusters`. Of none seen the upper limit is that of one cluster of size 1:
/// 2.9957 at 95 %, the rule of three.
///
/// In simulations of bursts of equal and of geometric size, one to ten in each
/// and twelve or more bursts, a 95 % interval held the truth in .93 to .975.
/// With fewer than a dozen it holds isolated events up to .985 (whole numbers
/// cannot be cut at 2.5 %) and bursts of varying size down to .92: how large
/// they get is not known from six.
///
/// # Errors
/// When a number is out of its range.
pub fn clustered_interval(
    sum: f64,
    clusters: Option<Clusters>,
    confidence: f64,
) -> Result<Interval, InputError> {
    not_negative("sum", sum)?;
    let tail = (1.0 - probability("confidence", confidence)?) / 2.0;
    let Some(Clusters { count, variation }) = clusters else {
        return Ok(Interval {
            low: 0.0,
            high: -(2.0 * tail).ln(),
        });
    };
    positive("number of clusters", count)?;
    positive("variation of sizes", variation)?;
    let of_sizes = count / variation;
    if count > MANY {
        let deviate = Normal::standard().inverse_cdf(1.0 - tail);
        let width = (deviate * ((1.0 + variation) / count).sqrt()).exp();
        return Ok(Interval {
            low: sum / width,
            high: sum * width,
        });
    }
    let below = |log: f64| {
        let share = |shape: f64| {
            let x = log.exp();
            beta_reg(shape, of_sizes, x / (x + of_sizes))
        };
        f64::midpoint(share(count), share(count + 1.0))
    };
    let limit = |share: f64| {
        let expected = count.ln();
        root_between(|log| below(log) - share, expected - 50.0, expected + 50.0).exp()
    };
    Ok(Interval {
        low: sum / count * limit(tail),
        high: sum / count * limit(1.0 - tail),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, proptest};

    fn at(times: &[f64]) -> Vec<Event> {
        let event = |&at: &f64| Event { at, size: 1.0 };
        times.iter().map(event).collect()
    }

    /// `count` clusters at irregular distances in 1,000, each of `size` events
    /// within 1.
    fn bursts(count: u32, size: u32) -> Vec<Event> {
        let mut now = 0.0;
        (0..count)
            .flat_map(|index| {
                // About exponential: -ln of the middles of equal shares.
                let share = (f64::from(index * 7 % count) + 0.5) / f64::from(count);
                now += -share.ln() * 990.0 / f64::from(count);
                let start = now;
                (0..size).map(move |event| Event {
                    at: start + f64::from(event) / f64::from(size),
                    size: 1.0,
                })
            })
            .collect()
    }

    #[test]
    fn what_comes_together_is_one_cluster() {
        for (count, size) in [(1, 1), (1, 10), (2, 10), (12, 1), (12, 5), (30, 64)] {
            let found = sizes(&bursts(count, size), 1_000.0).len() as f64;

            let expected = f64::from(count);
            assert!(
                (found - expected).abs() <= 0.25 * expected,
                "{count} bursts of {size}: {found} found"
            );
        }
    }

    #[test]
    fn many_cpus_that_stop_together_say_no_more_than_one() {
        let one = bursts(12, 1);
        let many: Vec<Event> = one.iter().flat_map(|&event| [event; 64]).collect();
        let interval = |events: &[Event], per: f64| {
            let clusters = Clusters::of(events, 1_000.0).unwrap();
            let sum: f64 = events.iter().map(|event| event.size).sum();
            let found = clustered_interval(sum, clusters, 0.95).unwrap();
            (found.low / per, found.high / per)
        };

        let (one, many) = (interval(&one, 1.0), interval(&many, 64.0));

        assert!((many.0 / one.0 - 1.0).abs() < 0.1, "{one:?} {many:?}");
        assert!((many.1 / one.1 - 1.0).abs() < 0.1, "{one:?} {many:?}");
    }

    #[test]
    fn a_busy_half_of_the_time_counts_for_less_than_its_clusters() {
        let spread: Vec<f64> = (0..40).map(|k| 25.0 * f64::from(k)).collect();
        let crowd: Vec<f64> = (0..40).map(|k| 12.0 * f64::from(k)).collect();
        let count = |times: &[f64]| Clusters::of(&at(times), 1_000.0).unwrap().unwrap().count;

        assert!(count(&spread) > 39.0);
        assert!(count(&crowd) < 25.0, "{}", count(&crowd));
    }

    /// Solved with `scipy.special.gammainc` and `betainc` (`SciPy` 1.17.1).
    #[test]
    fn limits_are_those_of_the_quotient_of_gamma_variables() {
        for (count, variation, low, high) in CASES {
            let clusters = Some(Clusters { count, variation });

            let found = clustered_interval(count, clusters, 0.95).unwrap();

            assert!((found.low / low - 1.0).abs() < 1e-6, "{count}: {found:?}");
            assert!((found.high / high - 1.0).abs() < 1e-6, "{count}: {found:?}");
        }
    }

    const CASES: [(f64, f64, f64, f64); 8] = [
        // Clusters, variation, both limits.
        (1.0, 0.5, 0.05005896685069, 15.365858422874426),
        (3.2, 0.4, 0.787650969216676, 11.928342794028564),
        (10.0, 0.05, 5.026528885873669, 18.19065209647275),
        (10.0, 0.0526, 5.023830207037917, 18.2097355681502),
        (12.0, 1.1, 5.466792172352517, 29.14318043757852),
        (50.0, 0.01, 37.46524398145214, 65.48982415439943),
        (400.0, 0.7, 352.1841476355536, 454.7799299436251),
        (9_000.0, 0.02, 8813.709707672688, 9189.300391389632),
    ];

    #[test]
    fn of_nothing_seen_the_rule_of_three_remains() {
        let found = clustered_interval(0.0, None, 0.95).unwrap();

        assert!(found.low == 0.0 && (found.high - 2.995_732_273_553_991).abs() < 1e-9);
    }

    #[test]
    fn events_out_of_order_or_out_of_the_span_are_refused() {
        assert!(Clusters::of(&at(&[2.0, 1.0]), 10.0).is_err());
        assert!(Clusters::of(&at(&[2.0, 11.0]), 10.0).is_err());
        assert!(Clusters::of(&[], 0.0).is_err());
        assert_eq!(Clusters::of(&[], 1.0), Ok(None));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_in_clusters_and_the_sum_lies_in_its_interval(
            times in prop::collection::vec(0.0..1_000.0_f64, 1..80),
            size in 0.05..20.0_f64,
        ) {
            let mut times = times;
            times.sort_by(f64::total_cmp);
            let events: Vec<Event> = times.iter().map(|&at| Event { at, size }).collect();
            let sum = size * events.len() as f64;

            let clusters = Clusters::of(&events, 1_000.0).unwrap().unwrap();
            let interval = clustered_interval(sum, Some(clusters), 0.95).unwrap();

            prop_assert!((sizes(&events, 1_000.0).iter().sum::<f64>() / sum - 1.0).abs() < 1e-9);
            prop_assert!(clusters.count <= events.len() as f64 && clusters.count > 0.0);
            prop_assert!(interval.contains(sum), "{interval:?} {sum}");
        }

        #[test]
        fn the_step_to_many_clusters_is_small(variation in 0.001..3.0_f64) {
            let interval = |count: f64| {
                let clusters = Some(Clusters { count, variation });
                clustered_interval(1.0, clusters, 0.95).unwrap()
            };
            let (exact, normal) = (interval(MANY), interval(MANY + 1.0));
            prop_assert!((exact.low / normal.low - 1.0).abs() < 1e-3);
            prop_assert!((exact.high / normal.high - 1.0).abs() < 1e-3);
        }
    }
}
