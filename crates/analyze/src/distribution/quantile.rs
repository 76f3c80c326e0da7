//! Quantiles that the sample determines.
//!
//! Two effects make a quantile uncertain. An activation that was still waiting when the
//! measurement ended is right-censored (type I: the end of the study was fixed in
//! advance; Klein & Moeschberger 2003, 3.2): its time is at least its wait. A lost
//! activation may have had any time. For N = counted + lost, the quantile of rank r =
//! ceil(q N) therefore lies between two values. The lower is the r-th smallest if
//! censored times count as their waits and lost ones as zero. The upper is the r-th
//! smallest if both count as later than all others (the worst-case bounds of missing
//! outcomes, Manski 2003, ch. 1; no assumption about the reason). If both fall in the
//! same bucket, the quantile is known: for censored times, if all of them waited longer
//! than it. If the second does not exist, only a lower limit is known: beyond the
//! fraction 1 - (censored + lost) / N.

use laggard_model::{Histogram, Nanos, whole};

/// Quantiles that reports show.
pub const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

/// Minimum expected number of samples beyond a quantile. With this number, a two-sided
/// 95 % interval by order statistics has an upper end, since exp(-3.689) = 2.5 %
/// (docs/method.md 8.3).
pub const MIN_BEYOND: f64 = 3.688_879_454_113_936;

/// Quantile with its uncertainty.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quantile {
    /// Time that this fraction of all does not exceed, as the upper edge of its bucket
    /// (at most 1.09 % high).
    Is(Nanos),
    /// Interval of the quantile: some activations were lost, or were still waiting
    /// after less time.
    Between(Nanos, Nanos),
    /// Lower limit: too many activations were lost or still waiting.
    AtLeast(Nanos),
    /// Too many losses for any bound.
    Unknown,
    /// The sample is too small; this number of samples supports the quantile.
    Needs(u64),
}

/// Returns the quantile `q` (0 to 1) of completely known times, or the sample size that
/// it needs.
pub fn quantile(histogram: &Histogram, q: f64) -> Quantile {
    bounded(histogram, &Histogram::default(), 0, q)
}

/// Returns the quantile `q` (0 to 1) of the times in `times` and `lost` more. The times
/// in `censored`, a part of `times`, are lower limits.
pub fn bounded(times: &Histogram, censored: &Histogram, lost: u64, q: f64) -> Quantile {
    // The median of three samples is not an estimate either.
    let share = (1.0 - q).min(q);
    if (times.count() as f64) * share < MIN_BEYOND {
        // Without rounding, 1 - 0.9999 would require one sample too many.
        return Quantile::Needs(whole((MIN_BEYOND / share - 1e-6).ceil()));
    }
    // As in `Histogram::quantile`.
    let rank = whole((q.clamp(0.0, 1.0) * (times.count() + lost) as f64).ceil());
    let rank = rank.max(1);
    let low = match rank.checked_sub(lost) {
        None | Some(0) => None,
        Some(rank) => bucket_at(times.buckets(), rank),
    };
    let high = bucket_at(without(times, censored), rank);
    // The last bucket's edge is above the largest.
    let edge = |bucket| {
        let edge = Histogram::upper_edge(bucket);
        times.max().map_or(edge, |max| edge.min(max))
    };
    // All times in a bucket are later than the previous edge.
    let at_least = |bucket: usize| {
        let before = bucket.checked_sub(1).map(Histogram::upper_edge);
        before.max(times.min()).unwrap_or_default()
    };
    match (low, high) {
        (None, None) => Quantile::Unknown,
        (Some(low), None) => Quantile::AtLeast(at_least(low)),
        (Some(low), Some(high)) if low == high => Quantile::Is(edge(high)),
        (Some(low), Some(high)) => Quantile::Between(at_least(low), edge(high)),
        (None, Some(high)) => Quantile::Between(Nanos::ZERO, edge(high)),
    }
}

/// Returns the buckets of `times` with their counts, minus the counts in `some`.
pub(super) fn without<'a>(
    times: &'a Histogram,
    some: &'a Histogram,
) -> impl Iterator<Item = (usize, u64)> + 'a {
    let mut out = some.buckets().peekable();
    times.buckets().map(move |(bucket, count)| {
        let less = out.next_if(|&(other, _)| other <= bucket);
        let less = less.map_or(0, |(_, count)| count);
        (bucket, count.saturating_sub(less))
    })
}

/// Returns the bucket of the `rank`-th smallest time, counted from 1; `None` if there
/// are fewer times.
pub(super) fn bucket_at(buckets: impl Iterator<Item = (usize, u64)>, rank: u64) -> Option<usize> {
    let mut passed = 0;
    for (bucket, count) in buckets {
        passed += count;
        if passed >= rank {
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
    fn quantile_beyond_the_sample_reports_the_needed_size() {
        assert_eq!(
            quantile(&histogram(1..=1_000), 0.9999),
            Quantile::Needs(36_889)
        );
        assert_eq!(quantile(&histogram(1..=3), 0.5), Quantile::Needs(8));
        assert_eq!(quantile(&histogram([]), 0.5), Quantile::Needs(8));
    }

    #[test]
    fn supported_quantile_is_at_most_a_bucket_high() {
        let Quantile::Is(value) = quantile(&histogram(1..=10_000), 0.99) else {
            panic!("10,000 samples support p99");
        };

        assert!((9_900_000..=10_000_000).contains(&value.ns()), "{value}");
    }

    #[test]
    fn quantile_is_known_below_all_waits_and_a_lower_limit_among_them() {
        // 900 served within 900 us; 100 had waited for 1 ms or longer.
        let (times, waiting) = (
            histogram((1..=900).chain(1_001..=1_100)),
            histogram(1_001..=1_100),
        );

        let bound = bounded(&times, &waiting, 0, 0.5);
        let among = bounded(&times, &waiting, 0, 0.99);

        assert!(matches!(bound, Quantile::Is(_)), "{bound:?}");
        let Quantile::AtLeast(least) = among else {
            panic!("p99 is among the waiting activations: {among:?}");
        };
        assert!(
            (1_070_000..=1_090_000).contains(&least.ns()),
            "the 990th had waited for 1,090 us: {least}"
        );
    }

    #[test]
    fn quantile_is_an_interval_if_some_waited_less() {
        // 400 of 1,000 had just started to wait: the true median is anything from the
        // 500th of all to the 500th of the 600 served.
        let times = histogram(std::iter::repeat_n(1, 400).chain(401..=1_000));
        let waiting = histogram(std::iter::repeat_n(1, 400));

        let Quantile::Between(low, high) = bounded(&times, &waiting, 0, 0.5) else {
            panic!("an interval");
        };

        assert!((490_000..=500_000).contains(&low.ns()), "{low}");
        assert!((900_000..=910_000).contains(&high.ns()), "{high}");
    }

    #[test]
    fn quantile_is_a_lower_limit_beyond_the_losses() {
        // 10,000 counted, 9 lost: 0.09 %.
        let bound = |times: usize| {
            let late = (1..=20).map(|times| 1_000 * times);
            let values = std::iter::repeat_n(10, 9_980).chain(late);
            histogram(values.cycle().take(10_000 * times))
        };
        let none = Histogram::default();

        let p99 = bounded(&bound(1), &none, 9, 0.99);
        let p999 = bounded(&bound(1), &none, 9, 0.999);
        let p9999 = bounded(&bound(10), &none, 90, 0.9999);

        assert!(matches!(p99, Quantile::Is(_)), "{p99:?}");
        let Quantile::Between(low, high) = p999 else {
            panic!("p99.9 lies below 1 - 0.0009: {p999:?}");
        };
        assert!((9_880_000..=10_000_000).contains(&low.ns()), "{low}");
        assert!((19_000_000..=20_000_000).contains(&high.ns()), "{high}");
        assert!(matches!(p9999, Quantile::AtLeast(_)), "{p9999:?}");
    }

    #[test]
    fn quantile_is_unknown_if_most_were_lost() {
        let times = histogram(1..=100);

        let bound = bounded(&times, &Histogram::default(), 1_000, 0.5);

        assert_eq!(bound, Quantile::Unknown);
    }

    #[test]
    fn quantile_is_a_lower_limit_if_all_still_wait() {
        let waiting = histogram(1..=5_000);

        for q in [0.5, 0.99, 0.999] {
            let bound = bounded(&waiting, &waiting, 0, q);
            assert!(matches!(bound, Quantile::AtLeast(_)), "for {q}: {bound:?}");
        }
    }

    proptest! {
        /// For any unknown times, the true quantile is within the reported one.
        #[test]
        fn true_quantile_is_within_the_result(
            served in prop::collection::vec(1..2_000_000_u64, 8..200),
            censored in prop::collection::vec((1..2_000_000_u64, 0..2_000_000_u64), 0..60),
            lost in prop::collection::vec(0..4_000_000_u64, 0..60),
            percent in 10..96_u32,
        ) {
            let q = f64::from(percent) / 100.0;
            let mut times = Histogram::default();
            let mut waited = Histogram::default();
            let mut truth = Histogram::default();
            for &ns in &served {
                times.add(Nanos::from_ns(ns));
                truth.add(Nanos::from_ns(ns));
            }
            for &(ns, longer) in &censored {
                times.add(Nanos::from_ns(ns));
                waited.add(Nanos::from_ns(ns));
                truth.add(Nanos::from_ns(ns + longer));
            }
            lost.iter().for_each(|&ns| truth.add(Nanos::from_ns(ns)));
            let is = truth.quantile(q).unwrap();
            let bucket = Histogram::bucket_of;

            match bounded(&times, &waited, lost.len() as u64, q) {
                Quantile::Is(bound) => assert_eq!(bucket(bound), bucket(is)),
                Quantile::Between(low, high) => {
                    assert!(low <= is && bucket(is) <= bucket(high), "{low} {is} {high}");
                }
                Quantile::AtLeast(low) => assert!(low <= is, "{low} {is}"),
                Quantile::Unknown | Quantile::Needs(_) => {}
            }
        }
    }
}
