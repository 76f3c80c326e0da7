//! Quantiles, as far as the sample tells them.
//!
//! Two things keep a quantile from being known. An activation that was still
//! waiting when measuring ended is right-censored (type I: the end of the
//! study was fixed beforehand; Klein & Moeschberger 2003, 3.2): its time is
//! only known to be at least how long it had waited. One that was lost may
//! have had any time. So of all N = counted + lost, the quantile of rank
//! r = ceil(q N) lies between the r-th smallest if the censored count as what
//! they had waited and the lost as zero, and the r-th smallest if both count
//! as later than everything (the worst-case bounds of missing outcomes,
//! Manski 2003, ch. 1; no assumption of why they are missing). Where both are
//! the same bucket the quantile is known: for the censored, where all of them
//! had waited longer than it. Where the second does not exist, only a lower
//! limit is known: beyond the share 1 - (censored + lost) / N.

use laggard_model::{Histogram, Nanos, whole};

/// The shares that reports show.
pub const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

/// How many samples must be expected beyond a quantile: from this many on a
/// two-sided 95 % interval by order statistics has an upper end, since
/// exp(-3.689) = 2.5 % (docs/method.md 8.3).
pub const MIN_BEYOND: f64 = 3.688_879_454_113_936;

/// A quantile, or what can be said of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quantile {
    /// The time that this share of all does not exceed, as its bucket's upper
    /// edge (at most 1.09 % high).
    Is(Nanos),
    /// It lies between these two: some activations were lost, or were still
    /// waiting having waited for less.
    Between(Nanos, Nanos),
    /// It is at least this: too many were lost, or were still waiting.
    AtLeast(Nanos),
    /// So many were lost that nothing is known of it.
    Unknown,
    /// The sample is too small; so many samples support it.
    Needs(u64),
}

/// Times of which all are known.
///
/// The quantile `q` (0 to 1) is one, or needs a larger sample.
pub fn quantile(histogram: &Histogram, q: f64) -> Quantile {
    bounded(histogram, &Histogram::default(), 0, q)
}

/// The quantile `q` (0 to 1) of the times in `all`, of which those in
/// `censored` are only known to be at least that, and of `lost` more.
pub fn bounded(all: &Histogram, censored: &Histogram, lost: u64, q: f64) -> Quantile {
    // The median of three samples is no estimate either.
    let share = (1.0 - q).min(q);
    if (all.count() as f64) * share < MIN_BEYOND {
        // Without this, 1 - 0.9999 asks for one sample more than it should.
        return Quantile::Needs(whole((MIN_BEYOND / share - 1e-6).ceil()));
    }
    // As in `Histogram::quantile`.
    let rank = whole((q.clamp(0.0, 1.0) * (all.count() + lost) as f64).ceil());
    let rank = rank.max(1);
    let low = match rank.checked_sub(lost) {
        None | Some(0) => None,
        Some(rank) => bucket_at(all.buckets(), rank),
    };
    let high = bucket_at(without(all, censored), rank);
    // The last bucket's edge is above the largest.
    let edge = |bucket| {
        let edge = Histogram::upper_edge(bucket);
        all.max().map_or(edge, |max| edge.min(max))
    };
    // All in a bucket are later than the edge before it.
    let at_least = |bucket: usize| {
        let before = bucket.checked_sub(1).map(Histogram::upper_edge);
        before.max(all.min()).unwrap_or_default()
    };
    match (low, high) {
        (None, None) => Quantile::Unknown,
        (Some(low), None) => Quantile::AtLeast(at_least(low)),
        (Some(low), Some(high)) if low == high => Quantile::Is(edge(high)),
        (Some(low), Some(high)) => Quantile::Between(at_least(low), edge(high)),
        (None, Some(high)) => Quantile::Between(Nanos::ZERO, edge(high)),
    }
}

/// The buckets of `all` with their counts, but for those in `some` of them.
pub(super) fn without<'a>(
    all: &'a Histogram,
    some: &'a Histogram,
) -> impl Iterator<Item = (usize, u64)> + 'a {
    let mut out = some.buckets().peekable();
    all.buckets().map(move |(bucket, count)| {
        let less = out.next_if(|&(other, _)| other <= bucket);
        let less = less.map_or(0, |(_, count)| count);
        (bucket, count.saturating_sub(less))
    })
}

/// The bucket of the `rank`-th smallest, counted from 1; `None` where there
/// are not so many.
pub(super) fn bucket_at(buckets: impl Iterator<Item = (usize, u64)>, rank: u64) -> Option<usize> {
    let mut seen = 0;
    for (bucket, count) in buckets {
        seen += count;
        if seen >= rank {
            return Some(bucket);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, proptest};

    fn histogram(us: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        us.into_iter()
            .for_each(|us| histogram.add(Nanos::from_us(us)));
        histogram
    }

    #[test]
    fn a_quantile_beyond_the_sample_says_how_many_it_needs() {
        assert_eq!(
            quantile(&histogram(1..=1_000), 0.9999),
            Quantile::Needs(36_889)
        );
        assert_eq!(quantile(&histogram(1..=3), 0.5), Quantile::Needs(8));
        assert_eq!(quantile(&histogram([]), 0.5), Quantile::Needs(8));
    }

    #[test]
    fn a_supported_quantile_is_at_most_a_bucket_high() {
        let Quantile::Is(found) = quantile(&histogram(1..=10_000), 0.99) else {
            panic!("10,000 samples support p99");
        };

        assert!((9_900_000..=10_000_000).contains(&found.ns()), "{found}");
    }

    #[test]
    fn a_quantile_below_all_that_still_waited_is_known_and_one_among_them_is_a_lower_limit() {
        // 900 served within 900 us; 100 had waited from 1 ms on.
        let (all, waiting) = (
            histogram((1..=900).chain(1_001..=1_100)),
            histogram(1_001..=1_100),
        );

        let known = bounded(&all, &waiting, 0, 0.5);
        let among = bounded(&all, &waiting, 0, 0.99);

        assert!(matches!(known, Quantile::Is(_)), "{known:?}");
        let Quantile::AtLeast(least) = among else {
            panic!("p99 lies among those that still waited: {among:?}");
        };
        assert!(
            (1_070_000..=1_090_000).contains(&least.ns()),
            "the 990th had waited for 1,090 us: {least}"
        );
    }

    #[test]
    fn what_had_waited_for_less_than_the_quantile_makes_it_an_interval() {
        // 400 of 1,000 had only just begun to wait: the median of the truth is
        // anything from the 500th of all to the 500th of the 600 served.
        let all = histogram(std::iter::repeat_n(1, 400).chain(401..=1_000));
        let waiting = histogram(std::iter::repeat_n(1, 400));

        let Quantile::Between(low, high) = bounded(&all, &waiting, 0, 0.5) else {
            panic!("an interval");
        };

        assert!((490_000..=500_000).contains(&low.ns()), "{low}");
        assert!((900_000..=910_000).contains(&high.ns()), "{high}");
    }

    #[test]
    fn a_quantile_beyond_what_was_not_lost_is_a_lower_limit() {
        // 10,000 seen, 9 lost: 0.09 %.
        let seen = |times: usize| {
            let late = (1..=20).map(|times| 1_000 * times);
            let one = std::iter::repeat_n(10, 9_980).chain(late);
            histogram(one.cycle().take(10_000 * times))
        };
        let none = Histogram::default();

        let p99 = bounded(&seen(1), &none, 9, 0.99);
        let p999 = bounded(&seen(1), &none, 9, 0.999);
        let p9999 = bounded(&seen(10), &none, 90, 0.9999);

        assert!(matches!(p99, Quantile::Is(_)), "{p99:?}");
        let Quantile::Between(low, high) = p999 else {
            panic!("p99.9 lies below 1 - 0.0009: {p999:?}");
        };
        assert!((9_880_000..=10_000_000).contains(&low.ns()), "{low}");
        assert!((19_000_000..=20_000_000).contains(&high.ns()), "{high}");
        assert!(matches!(p9999, Quantile::AtLeast(_)), "{p9999:?}");
    }

    #[test]
    fn of_what_was_lost_more_often_than_seen_the_median_is_not_known() {
        let seen = histogram(1..=100);

        let found = bounded(&seen, &Histogram::default(), 1_000, 0.5);

        assert_eq!(found, Quantile::Unknown);
    }

    #[test]
    fn where_nothing_was_served_every_quantile_is_a_lower_limit() {
        let waiting = histogram(1..=5_000);

        for q in [0.5, 0.99, 0.999] {
            let found = bounded(&waiting, &waiting, 0, q);
            assert!(matches!(found, Quantile::AtLeast(_)), "for {q}: {found:?}");
        }
    }

    proptest! {
        /// Whatever the unknown times are, the true quantile is in what is said.
        #[test]
        fn the_truth_lies_within_what_is_said(
            served in prop::collection::vec(1..2_000_000_u64, 8..200),
            censored in prop::collection::vec((1..2_000_000_u64, 0..2_000_000_u64), 0..60),
            lost in prop::collection::vec(0..4_000_000_u64, 0..60),
            percent in 10..96_u32,
        ) {
            let q = f64::from(percent) / 100.0;
            let mut all = Histogram::default();
            let mut waited = Histogram::default();
            let mut truth = Histogram::default();
            for &ns in &served {
                all.add(Nanos::from_ns(ns));
                truth.add(Nanos::from_ns(ns));
            }
            for &(ns, longer) in &censored {
                all.add(Nanos::from_ns(ns));
                waited.add(Nanos::from_ns(ns));
                truth.add(Nanos::from_ns(ns + longer));
            }
            lost.iter().for_each(|&ns| truth.add(Nanos::from_ns(ns)));
            let is = truth.quantile(q).unwrap();
            let bucket = Histogram::bucket_of;

            match bounded(&all, &waited, lost.len() as u64, q) {
                Quantile::Is(said) => assert_eq!(bucket(said), bucket(is)),
                Quantile::Between(low, high) => {
                    assert!(low <= is && bucket(is) <= bucket(high), "{low} {is} {high}");
                }
                Quantile::AtLeast(low) => assert!(low <= is, "{low} {is}"),
                Quantile::Unknown | Quantile::Needs(_) => {}
            }
        }
    }
}
