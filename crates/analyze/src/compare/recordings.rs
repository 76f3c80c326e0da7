//! Two sets of recordings: which is late more often (docs/method.md 10.1).
//!
//! Late activations come in bursts, and one recording differs from the next
//! also where nothing was changed. So counts weigh as many independent events
//! as are behind them within a recording, and less again where recordings of
//! one side vary more than that; and the ratio must hold recording by recording
//! as well. Whether recordings vary is not asked first: what few of them do not
//! show tells one of many services from itself all the same.

use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};

use super::order::RecordingOrder;
use super::verdict::{Comparison, judged};
use crate::counts::{Clusters, Event, RateRatio, effective_ratio};
use crate::input::{at_least, not_negative, positive, probability};
use crate::sample::{mean, variance};
use crate::{InputError, Interval};

/// Recordings are said to differ by themselves where chance alone gives as much in
/// fewer than so many comparisons. No verdict depends on it.
const VARIES: f64 = 0.1;
/// One pair in so many may contradict the others.
const CONTRADICTING_IN: usize = 3;

/// How often one recording was late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordingCount {
    /// Clusters of late activations.
    pub events: f64,
    /// Their variance over that of as many independent ones. That of a few can be
    /// below 1; of those of a side together, that counts as 1.
    pub dispersion: f64,
    /// In which time, of all CPUs.
    pub exposure: f64,
}

impl RecordingCount {
    /// Of clusters at `times` since a recording began that lasted `duration`,
    /// on CPUs whose times add up to `exposure`.
    ///
    /// # Errors
    /// When a cluster lies outside the recording, or that has no length.
    pub fn of(mut times: Vec<f64>, duration: f64, exposure: f64) -> Result<Self, InputError> {
        times.sort_by(f64::total_cmp);
        let event = |&at: &f64| Event { at, size: 1.0 };
        let all: Vec<Event> = times.iter().map(event).collect();
        let events = all.len() as f64;
        let clusters = Clusters::of(&all, duration)?;
        Ok(Self {
            events,
            dispersion: clusters
                .map_or(1.0, |clusters| clusters.dispersion(events) - excess(events)),
            exposure,
        })
    }
}

/// By how much [`Clusters::dispersion`] is above 1 on average for `events` that are
/// independent: it is never below 1, so that no single recording is thought more
/// regular than chance. By simulation, within .03 for 1 to 400 events.
fn excess(events: f64) -> f64 {
    match events {
        2.0.. => 0.14 + 1.05 / events,
        _ => 0.5,
    }
}

/// Two sets of recordings compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetsCompared {
    /// The second's rate over the first's, and what that means.
    pub comparison: Comparison,
    /// Events of each side that count as one independent.
    pub dispersions: [f64; 2],
    /// How many times more recordings vary than their own events explain; 1 where
    /// they vary no more.
    pub between: f64,
    /// Whether that is more than chance.
    pub varies: bool,
    /// Whether the order alone keeps this from a verdict: it repeats itself, so that a
    /// regular job could be the difference, or hide one.
    pub is_of_order: bool,
    /// Pairs (the first recording of each side, the second of each ...) whose
    /// difference has the other sign than that of all; `None` where the sides
    /// differ in number.
    pub contradicting: Option<usize>,
    /// Whether no more than one pair in four does so; of sides that differ in
    /// number nothing contradicts.
    pub pairs_agree: bool,
}

/// Compares the rates of two sets of recordings, each in the order in which
/// they were made. Ratios within 1 / `margin` and `margin` count as equal.
///
/// # Errors
/// When a side has no recording, or a number is out of its range.
pub fn compare_recordings(
    first: &[RecordingCount],
    second: &[RecordingCount],
    margin: f64,
    confidence: f64,
) -> Result<SetsCompared, InputError> {
    let unknown = RecordingOrder::new(Vec::new());
    compare_recordings_in_order(first, second, &unknown, (margin, confidence))
}

/// Compares the rates of two sets of recordings that were made in this `order`. If the
/// order repeats itself, a job with the same period is in recordings of one side only.
/// Then the ratio must also hold with each position of the order as one observation.
///
/// # Errors
/// As [`compare_recordings`].
pub fn compare_recordings_in_order(
    first: &[RecordingCount],
    second: &[RecordingCount],
    order: &RecordingOrder,
    (margin, confidence): (f64, f64),
) -> Result<SetsCompared, InputError> {
    probability("confidence", confidence)?;
    let sides = [first, second];
    for (name, side) in [("first recordings", first), ("second recordings", second)] {
        at_least(name, side, 1)?;
        for one in side {
            not_negative("events", one.events)?;
            not_negative("dispersion", one.dispersion)?;
            positive("exposure", one.exposure)?;
        }
    }
    let dispersions = dispersions(sides);
    let (between, varies) = between(sides, dispersions);
    let [before, after] = [0, 1].map(|side| {
        let per = dispersions[side] * between;
        (events(sides[side]) / per, exposure(sides[side]) / per)
    });
    let mut ratio = effective_ratio(before, after, confidence)?;
    widen(&mut ratio, &logarithms(sides), confidence);
    let by_recordings = judged(ratio, margin)?.verdict;
    match order.positions() {
        positions if positions.is_empty() => {}
        // One position of each side: a regular job may be all of the difference.
        positions if positions.len() == 2 => {
            ratio.interval = Interval {
                low: 0.0,
                high: f64::INFINITY,
            };
            ratio.p = 1.0;
        }
        positions => widen(
            &mut ratio,
            &means_of_positions(sides, &positions),
            confidence,
        ),
    }
    let comparison = judged(ratio, margin)?;
    let contradicting = (first.len() == second.len()).then(|| contradicting(first, second));
    Ok(SetsCompared {
        comparison,
        dispersions,
        between,
        varies,
        is_of_order: by_recordings != comparison.verdict,
        contradicting,
        pairs_agree: contradicting.is_none_or(|pairs| pairs <= first.len() / CONTRADICTING_IN),
    })
}

fn events(side: &[RecordingCount]) -> f64 {
    side.iter().map(|one| one.events).sum()
}

fn exposure(side: &[RecordingCount]) -> f64 {
    side.iter().map(|one| one.exposure).sum()
}

/// Of each side, the mean of its recordings weighted by their events; of one
/// without any, the other's.
fn dispersions(sides: [&[RecordingCount]; 2]) -> [f64; 2] {
    let of = sides.map(|side| {
        let weighed = side.iter().map(|one| one.events * one.dispersion);
        let all = events(side);
        (all > 0.0).then(|| (weighed.sum::<f64>() / all).max(1.0))
    });
    [0, 1].map(|side| of[side].or(of[1 - side]).unwrap_or(1.0))
}

/// How many times more the recordings vary than `dispersions` explain, and whether
/// that is more than chance.
fn between(sides: [&[RecordingCount]; 2], dispersions: [f64; 2]) -> (f64, bool) {
    let (statistic, freedom) = within(sides, dispersions);
    if freedom < 1.0 {
        return (1.0, false);
    }
    let seen = statistic / freedom;
    let chance = ChiSquared::new(freedom).map_or(1.0, |chi| chi.sf(statistic));
    (seen.max(1.0), chance < VARIES)
}

/// The squares of what recordings are off their side's rate, over their
/// variances; and how many of them are free. What the two of a pair share, such as
/// an hour, counts too: differences of pairs are half as many, and tell what
/// varies from chance too seldom to be worth it (docs/validation/compare.md has both).
fn within(sides: [&[RecordingCount]; 2], dispersions: [f64; 2]) -> (f64, f64) {
    let (mut statistic, mut freedom) = (0.0, 0.0);
    for (side, dispersion) in sides.into_iter().zip(dispersions) {
        let rate = events(side) / exposure(side);
        if rate > 0.0 {
            freedom += side.len() as f64 - 1.0;
            statistic += side
                .iter()
                .map(|one| (rate * one.exposure, one.events))
                .map(|(expected, seen)| (seen - expected).powi(2) / (expected * dispersion))
                .sum::<f64>();
        }
    }
    (statistic, freedom)
}

/// Logarithms of the rates of recordings. Half an event is added to each count, so that
/// none is without a logarithm.
fn logarithms(sides: [&[RecordingCount]; 2]) -> [Vec<f64>; 2] {
    let log = |one: &RecordingCount| ((one.events + 0.5) / one.exposure).ln();
    sides.map(|side| side.iter().map(log).collect())
}

/// Mean logarithms of the recordings at each position of an order that repeats itself.
fn means_of_positions(
    sides: [&[RecordingCount]; 2],
    positions: &[(usize, Vec<usize>)],
) -> [Vec<f64>; 2] {
    let logs = logarithms(sides);
    [0, 1].map(|side| {
        let of_side = positions.iter().filter(|position| position.0 == side);
        let mean_of = |(_, recordings): &(usize, Vec<usize>)| {
            let logs: Vec<f64> = recordings
                .iter()
                .filter_map(|&at| logs[side].get(at).copied())
                .collect();
            mean(&logs)
        };
        of_side.map(mean_of).collect()
    })
}

/// The ratio must hold recording by recording, too, by Student's interval of the
/// difference of the means of their rates' logarithms, which assumes nothing of why
/// they differ. Of one recording each there is no such interval.
fn widen(ratio: &mut RateRatio, logs: &[Vec<f64>; 2], confidence: f64) {
    let free = |side: &Vec<f64>| side.len() as f64 - 1.0;
    let freedom = free(&logs[0]) + free(&logs[1]);
    let Ok(student) = StudentsT::new(0.0, 1.0, freedom) else {
        return;
    };
    let middle = mean(&logs[1]) - mean(&logs[0]);
    let squares = |side: &Vec<f64>| match side.len() {
        // One recording varies from nothing.
        1 => 0.0,
        _ => variance(side) * free(side),
    };
    let pooled = (squares(&logs[0]) + squares(&logs[1])) / freedom;
    let each = |side: &Vec<f64>| pooled / side.len() as f64;
    let deviation = (each(&logs[0]) + each(&logs[1])).sqrt();
    let width = student.inverse_cdf(0.5 + confidence / 2.0) * deviation;
    ratio.interval.low = ratio.interval.low.min((middle - width).exp());
    ratio.interval.high = ratio.interval.high.max((middle + width).exp());
    if deviation > 0.0 {
        ratio.p = ratio.p.max(2.0 * student.sf(middle.abs() / deviation));
    }
}

fn contradicting(first: &[RecordingCount], second: &[RecordingCount]) -> usize {
    let difference = |one: f64, per: f64, other: f64, of: f64| (other / of).total_cmp(&(one / per));
    let all = difference(
        events(first),
        exposure(first),
        events(second),
        exposure(second),
    );
    let pairs = first.iter().zip(second);
    let signs = pairs
        .map(|(one, other)| difference(one.events, one.exposure, other.events, other.exposure));
    signs
        .filter(|sign| *sign == all.reverse() && !all.is_eq())
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::ComparisonVerdict;
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    fn counts(events: &[u32]) -> Vec<RecordingCount> {
        let one = |&events: &u32| RecordingCount {
            events: f64::from(events),
            dispersion: 1.0,
            exposure: 60.0,
        };
        events.iter().map(one).collect()
    }

    fn compared(first: &[u32], second: &[u32]) -> SetsCompared {
        compare_recordings(&counts(first), &counts(second), 1.25, 0.95).unwrap()
    }

    /// Else every comparison would pay for bursts that there are not.
    #[test]
    fn independent_events_have_the_dispersion_of_such_on_average() {
        let mut random = Pcg64Mcg::seed_from_u64(7);
        for count in [1, 2, 5, 10, 20, 60, 200] {
            let mut dispersion = || {
                let times = (0..count).map(|_| random.random::<f64>() * 300.0);
                let found = RecordingCount::of(times.collect(), 300.0, 300.0).unwrap();
                found.dispersion
            };
            let all: Vec<f64> = (0..600).map(|_| dispersion()).collect();

            assert!((mean(&all) - 1.0).abs() < 0.06, "{count}: {}", mean(&all));
        }
    }

    #[test]
    fn independent_events_that_agree_are_compared_as_their_sums() {
        let found = compared(&[10, 9, 11], &[21, 19, 20]);

        let sums = effective_ratio((30.0, 180.0), (60.0, 180.0), 0.95).unwrap();
        assert_eq!(found.comparison.verdict, ComparisonVerdict::Worse);
        assert_eq!((found.between, found.contradicting), (1.0, Some(0)));
        let low = found.comparison.ratio.interval.low;
        assert!((low / sums.interval.low - 1.0).abs() < 1e-6);
    }

    #[test]
    fn recordings_that_vary_more_than_their_events_are_no_verdict() {
        // As many in all as above.
        let found = compared(&[2, 3, 25], &[40, 18, 2]);

        assert_eq!(found.comparison.verdict, ComparisonVerdict::Inconclusive);
        assert_eq!(found.contradicting, Some(1));
        assert!(found.between > 10.0, "{found:?}");
    }

    /// Tenfold, by recordings of which each varies by a factor of two.
    #[test]
    fn recordings_that_vary_and_differ_by_far_more_are_a_verdict() {
        let found = compared(&[5, 9, 2, 7, 4, 12], &[50, 90, 20, 70, 40, 120]);

        assert!(found.between > 1.0, "{found:?}");
        assert_eq!(found.comparison.verdict, ComparisonVerdict::Worse);
        let p = found.comparison.ratio.p;
        assert!((1e-6..1e-3).contains(&p), "{p}");
    }

    #[test]
    fn what_varies_counts_also_where_both_of_a_pair_share_it() {
        for second in [&[10, 100, 1_000][..], &[10, 100, 1_000, 500]] {
            let found = compared(&[5, 50, 500], second);

            assert!(found.between > 100.0, "{found:?}");
            assert_eq!(found.comparison.verdict, ComparisonVerdict::Inconclusive);
            assert_eq!(found.contradicting, (second.len() == 3).then_some(0));
        }
    }

    #[test]
    fn one_pair_of_four_may_contradict_the_others_and_two_may_not() {
        let one = compared(&[10, 12, 21, 9], &[24, 22, 20, 26]);
        let two = compared(&[10, 23, 21, 9], &[24, 22, 20, 26]);

        assert_eq!((one.contradicting, one.pairs_agree), (Some(1), true));
        assert_eq!((two.contradicting, two.pairs_agree), (Some(2), false));
    }

    #[test]
    fn one_storm_in_one_of_three_recordings_is_no_change() {
        let found = compared(&[0, 0, 0], &[30, 0, 0]);

        assert_eq!(
            found.comparison.verdict,
            ComparisonVerdict::Inconclusive,
            "{found:?}"
        );
    }

    #[test]
    fn a_burst_counts_as_one_also_on_the_side_without_any() {
        let burst = RecordingCount {
            events: 64.0,
            dispersion: 96.0,
            exposure: 60.0,
        };
        let none = RecordingCount {
            events: 0.0,
            ..burst
        };

        let found = compare_recordings(&[none], &[burst], 1.25, 0.95).unwrap();

        assert_eq!(found.comparison.verdict, ComparisonVerdict::Inconclusive);
        assert_eq!(found.dispersions, [96.0, 96.0]);
    }

    /// A job in every fourth recording, in the order A B B A of eight rounds.
    #[test]
    fn job_in_the_rhythm_of_the_order_is_no_change() {
        let order = |letters: &str| {
            let side = |letter| usize::from(letter == 'B');
            RecordingOrder::new(letters.chars().map(side).collect())
        };
        let compared = |first: &[u32], second: &[u32], letters: &str| {
            let (first, second) = (counts(first), counts(second));
            compare_recordings_in_order(&first, &second, &order(letters), (1.25, 0.95)).unwrap()
        };
        let with_job = [98, 25, 101, 26, 99, 24, 100, 25];
        let without = [25, 24, 26, 25, 23, 27, 25, 26];
        let doubled = without.map(|count| 2 * count);

        let fixed = compared(&with_job, &without, &"ABBA".repeat(4));
        let random = compared(&with_job, &without, "ABABBABABABAABAB");
        let changed = compared(&without, &doubled, &"ABBA".repeat(4));
        let alternating = compared(&without, &doubled, &"AB".repeat(8));

        let verdicts = [fixed, random, changed, alternating].map(|one| one.comparison.verdict);
        assert_eq!(
            verdicts,
            [
                ComparisonVerdict::Inconclusive,
                ComparisonVerdict::Better,
                ComparisonVerdict::Worse,
                ComparisonVerdict::Inconclusive
            ]
        );
        assert!(fixed.is_of_order && alternating.is_of_order);
        assert!(!random.is_of_order && !changed.is_of_order);
        assert_eq!(alternating.comparison.ratio.p, 1.0);
    }

    #[test]
    fn without_a_recording_there_is_nothing_to_compare() {
        assert!(compare_recordings(&[], &counts(&[1]), 1.25, 0.95).is_err());
        assert!(compare_recordings(&counts(&[1]), &counts(&[1]), 1.0, 0.95).is_err());
    }

    proptest! {
        #[test]
        fn swapping_the_sides_swaps_the_verdict(
            a in prop::collection::vec(0..200_u32, 1..5), b in prop::collection::vec(0..200_u32, 1..5),
        ) {
            let (there, back) = (compared(&a, &b), compared(&b, &a));
            let swapped = match there.comparison.verdict {
                ComparisonVerdict::Worse => ComparisonVerdict::Better,
                ComparisonVerdict::Better => ComparisonVerdict::Worse,
                other => other,
            };
            prop_assert_eq!(back.comparison.verdict, swapped);
            prop_assert_eq!(there.contradicting, back.contradicting);
        }

        /// However alike the recordings of a side are by Student's interval.
        #[test]
        fn what_varies_so_many_times_more_tells_as_much_as_so_many_times_fewer_events(
            a in prop::collection::vec(0..200_u32, 2..5), b in prop::collection::vec(0..200_u32, 2..5),
        ) {
            let found = compared(&a, &b);
            let side = |all: &[u32]| {
                let events = f64::from(all.iter().sum::<u32>());
                (events / found.between, 60.0 * all.len() as f64 / found.between)
            };
            let fewer = effective_ratio(side(&a), side(&b), 0.95).unwrap();

            let (seen, least) = (found.comparison.ratio.interval, fewer.interval);
            prop_assert!(seen.low <= least.low && least.high <= seen.high, "{found:?}");
        }

        #[test]
        fn what_was_seen_lies_in_its_interval(
            a in prop::collection::vec(0..200_u32, 1..5), b in prop::collection::vec(0..200_u32, 1..5),
        ) {
            let found = compared(&a, &b).comparison.ratio;
            if let Some(ratio) = found.ratio {
                prop_assert!(found.interval.contains(ratio), "{found:?}");
            }
        }
    }
}
