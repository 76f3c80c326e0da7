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
//! **How much their sum varies.** The sum of clusters that come at random
//! (Poisson) has the variance of their squared sizes together. As found they give
//! a wrong one: where bursts last, less than all of the time lies between them,
//! too many are found and some are cut; where they overlap, several are one. So
//! it is taken from pairs of events no further apart than the longest cluster
//! lasts, less those that chance puts there (the second moment of a point
//! process: Ripley 1976). The sums of 20 windows of the time notice what crowds
//! for longer: the larger counts.
//!
//! **The interval** is that of a rate and a mean size together. Given n, the
//! rate's mid-p interval (Lancaster 1961; Cohen & Yang 1994) takes half of
//! Garwood's two gamma distributions each, of shapes n and n + 1; the sum of n
//! sizes, gamma-distributed ones, is a gamma variable of shape n / variation.
//! The quotient of two gamma variables follows a beta distribution (of the
//! second kind), or F. For clusters of one size it is the mid-p interval of
//! a Poisson rate. Where sizes differ, how much they do is itself known from
//! few: the interval reaches as much further as Student's t does beyond the
//! normal distribution, with as many degrees of freedom as the squares of the
//! sizes leave to their mean (twice its square over its variance: Satterthwaite
//! 1946).

use statrs::distribution::{ContinuousCDF, Normal};
use statrs::function::beta::beta_reg;

use super::groups::{Circle, Event};
use crate::input::{ascending, between, not_negative, positive, probability};
use crate::sample::{mean, variance};
use crate::solve::root_between;
use crate::{InputError, Interval};

/// The variation of sizes that one size tells nothing of; of n it is the nth
/// part that is added.
const PRIOR: f64 = 0.5;
/// However few the pairs, clusters are at most twice as many as the gaps say.
const LEAST: f64 = 0.5;
/// With more clusters than this the interval is the normal one of a logarithm;
/// with more degrees of freedom Student's t is the normal distribution.
const MANY: f64 = 10_000.0;

/// The independent events behind others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clusters {
    /// How many there are, by how much their sum varies: it need not be whole, and
    /// is never more than the instants at which any came.
    pub count: f64,
    /// The variance of their sizes over the square of their mean.
    pub variation: f64,
    /// How many degrees of freedom that variance has; infinite where all sizes
    /// are equal.
    pub freedom: f64,
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
        let circle = Circle { events, span };
        let groups = circle.groups();
        let sizes: Vec<f64> = groups.iter().map(|group| group.size).collect();
        let squares: Vec<f64> = sizes.iter().map(|size| size * size).collect();
        let found = sizes.len() as f64;
        let known = if sizes.len() > 1 {
            variance(&sizes) / mean(&sizes).powi(2) * (found - 1.0)
        } else {
            0.0
        };
        let by_sizes: f64 = squares.iter().sum();
        let varies = circle
            .variance_by_pairs(&groups)
            .max(circle.variance_by_windows())
            .max(LEAST * by_sizes);
        Ok(Some(Self {
            // A sum that varies less than by chance is not known to go on so.
            count: (found * by_sizes / varies).min(circle.instants() as f64),
            variation: (known + PRIOR) / found,
            freedom: freedom(&squares),
        }))
    }

    /// The variance of a sum of events over what it would be, were it
    /// a count of `events` independent ones.
    pub fn dispersion(self, events: f64) -> f64 {
        events * (1.0 + self.variation) / self.count
    }
}

/// The degrees of freedom of the mean of `squares`.
fn freedom(squares: &[f64]) -> f64 {
    let (count, mean) = (squares.len() as f64, mean(squares));
    let spread: f64 = squares.iter().map(|one| (one / mean - 1.0).powi(2)).sum();
    2.0 * count * count / spread
}

/// Where Student's t leaves `tail` beyond itself; the normal distribution where
/// it has many degrees of `freedom`.
fn deviate(tail: f64, freedom: f64) -> Result<f64, InputError> {
    if freedom > MANY {
        return Ok(Normal::standard().inverse_cdf(1.0 - tail));
    }
    positive("degrees of freedom", freedom)?;
    // P(|t| > x) as in Abramowitz & Stegun 26.5.27, of the logarithm of x.
    let beyond = |log: f64| {
        let share = freedom / (freedom + (2.0 * log).exp());
        beta_reg(freedom / 2.0, 0.5, share)
    };
    Ok(root_between(|log| 2.0 * tail - beyond(log), -10.0, 50.0).exp())
}

/// Where the expected sum of events lies of which `sum` was seen, in
/// `clusters`. Of none seen the upper limit is that of one cluster of size 1:
/// 2.9957 at 95 %, the rule of three.
///
/// In simulations of bursts of equal and of geometric size, one to ten in each
/// and 25 bursts, a 95 % interval held the truth in .94 to .97. Of six it holds
/// isolated events in .98 (whole numbers cannot be cut at 2.5 %).
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
    let Some(Clusters {
        count,
        variation,
        freedom,
    }) = clusters
    else {
        return Ok(Interval {
            low: 0.0,
            high: -(2.0 * tail).ln(),
        });
    };
    positive("number of clusters", count)?;
    positive("variation of sizes", variation)?;
    let deviate = deviate(tail, freedom)?;
    let of_sizes = count / variation;
    if count > MANY {
        let width = (deviate * ((1.0 + variation) / count).sqrt()).exp();
        return Ok(Interval {
            low: sum / width,
            high: sum * width,
        });
    }
    let tail = Normal::standard().sf(deviate);
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
            let events = &bursts(count, size);
            let found = Circle {
                events,
                span: 1_000.0,
            };
            let found = found.groups().len() as f64;

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
    fn regular_events_are_no_more_clusters_than_events_on_one_cpu_or_many() {
        for cpus in [64, 2, 1] {
            let times = (0..20_u32).flat_map(|k| vec![3.0 + 50.0 * f64::from(k); cpus]);
            let events = at(&times.collect::<Vec<f64>>());

            let found = Clusters::of(&events, 1_000.0).unwrap().unwrap();

            assert!((found.count - 20.0).abs() < 1e-3, "{cpus} CPUs: {found:?}");
        }
    }

    #[test]
    fn a_busy_half_of_the_time_counts_for_less_than_its_clusters() {
        let spread: Vec<f64> = (0..40).map(|k| 25.0 * f64::from(k)).collect();
        let crowd: Vec<f64> = (0..40).map(|k| 12.0 * f64::from(k)).collect();
        let count = |times: &[f64]| Clusters::of(&at(times), 1_000.0).unwrap().unwrap().count;

        assert!(count(&spread) > 39.0);
        assert!(count(&crowd) < 25.0, "{}", count(&crowd));
    }

    /// Solved with `scipy.special.betainc` and `scipy.stats.t` (`SciPy` 1.17.1).
    #[test]
    fn limits_are_those_of_the_quotient_of_gamma_variables() {
        for (count, variation, freedom, low, high) in CASES {
            let clusters = Some(Clusters {
                count,
                variation,
                freedom,
            });

            let found = clustered_interval(count, clusters, 0.95).unwrap();

            assert!((found.low / low - 1.0).abs() < 1e-6, "{count}: {found:?}");
            assert!((found.high / high - 1.0).abs() < 1e-6, "{count}: {found:?}");
        }
    }

    const CASES: [(f64, f64, f64, f64, f64); 8] = [
        // Clusters, variation, degrees of freedom, both limits.
        (1.0, 0.5, f64::INFINITY, 0.05005896685069, 15.365858422874),
        (3.2, 0.4, 6.5, 0.522138723412, 15.612196984586),
        (10.0, 0.05, f64::INFINITY, 5.0265288858737, 18.190652096473),
        (10.0, 0.0526, 40.0, 4.9020140579154, 18.51350148893),
        (12.0, 1.1, 4.8, 4.1239387749952, 39.007118228151),
        (50.0, 0.01, 1000.0, 37.451353316599, 65.510054570977),
        (400.0, 0.7, 60.0, 351.2512375888, 455.96958269026),
        (
            9_000.0,
            0.02,
            f64::INFINITY,
            8813.7097076727,
            9189.3003913896,
        ),
    ];

    /// 20 bursts of 10 within 0.3 s, four a second apart from the next: the
    /// largest gaps cut some of them.
    #[test]
    fn bursts_that_last_are_not_taken_for_more() {
        let events: Vec<Event> = bursts(20, 1)
            .iter()
            .flat_map(|first| {
                let at = first.at;
                (0..10_u32).map(move |event| Event {
                    at: at + 1.2 * f64::from(event),
                    size: 1.0,
                })
            })
            .filter(|event| event.at < 1_000.0)
            .collect();
        let mut events = events;
        events.sort_by(|one, other| one.at.total_cmp(&other.at));

        let found = Clusters::of(&events, 1_000.0).unwrap().unwrap();

        let independent = found.count / (1.0 + found.variation);
        assert!((15.0..25.0).contains(&independent), "{found:?}");
    }

    #[test]
    fn sizes_that_differ_leave_their_variance_in_doubt() {
        let squares = |sizes: &[f64]| freedom(&sizes.iter().map(|s| s * s).collect::<Vec<_>>());

        assert_eq!(squares(&[3.0; 9]), f64::INFINITY);
        // Squares 1 and 9: twice the square of 5 over the variance of their mean.
        assert!((squares(&[1.0, 3.0]) - 2.0 * 25.0 / 8.0).abs() < 1e-12);
        assert!(squares(&[1.0, 1.0, 1.0, 100.0]) < 3.0);
    }

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

            let groups = Circle { events: &events, span: 1_000.0 }.groups();
            let together: f64 = groups.iter().map(|group| group.size).sum();
            prop_assert!((together / sum - 1.0).abs() < 1e-9);
            prop_assert!(clusters.count <= events.len() as f64 && clusters.count > 0.0);
            prop_assert!(interval.contains(sum), "{interval:?} {sum}");
        }

        #[test]
        fn the_steps_to_many_are_small(variation in 0.001..3.0_f64, fewer in 3.0..900.0_f64) {
            let interval = |count: f64, freedom: f64| {
                let clusters = Some(Clusters { count, variation, freedom });
                clustered_interval(1.0, clusters, 0.95).unwrap()
            };
            let more = MANY * 1.0001;
            for (exact, normal) in [
                (interval(MANY, fewer), interval(more, fewer)),
                (interval(fewer, MANY), interval(fewer, more)),
            ] {
                prop_assert!((exact.low / normal.low - 1.0).abs() < 2e-3);
                prop_assert!((exact.high / normal.high - 1.0).abs() < 2e-3);
            }
        }
    }
}
