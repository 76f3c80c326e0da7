//! Comparison of two sets of recordings: which side is late more often (docs/method.md
//! 10.1).
//!
//! Late wakeups come in bursts, and recordings differ even without a change. Counts
//! are therefore weighted as the number of independent events behind them within a
//! recording, and further reduced if recordings of one side vary more than that. The
//! ratio must also hold recording by recording. No preliminary test decides whether
//! recordings vary: it would miss variation in a few recordings, which still makes one
//! of many services look different.

use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};

use super::order::RecordingOrder;
use super::trend::{Times, Trend};
use super::verdict::{Comparison, judged};
use crate::counts::{Clusters, Event, RateRatio, effective_ratio};
use crate::input::{at_least, not_negative, positive, probability};
use crate::sample::{mean, variance};
use crate::{InputError, Interval};

/// Level below which the variation between recordings is reported. No verdict depends
/// on it.
const VARIATION_LEVEL: f64 = 0.1;
/// In this number of pairs, one pair may contradict the others.
const PAIRS_PER_CONTRADICTION: usize = 3;

/// Number of late wakeups in a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordingCount {
    /// Clusters of late wakeups.
    pub events: f64,
    /// Variance of `events`, divided by the variance of the same number of independent
    /// events. It can be below 1 for a few events; the value for a whole side counts as
    /// at least 1.
    pub dispersion: f64,
    /// Observed time of all CPUs.
    pub exposure: f64,
}

impl RecordingCount {
    /// Counts clusters at `times` since the start of a recording that lasted
    /// `duration`, on CPUs whose times add up to `exposure`.
    ///
    /// # Errors
    /// If a cluster lies outside the recording, or the duration of the recording is zero.
    pub fn new(mut times: Vec<f64>, duration: f64, exposure: f64) -> Result<Self, InputError> {
        times.sort_by(f64::total_cmp);
        let event = |&time: &f64| Event {
            at: time,
            size: 1.0,
        };
        let raw: Vec<Event> = times.iter().map(event).collect();
        let events = raw.len() as f64;
        let clusters = Clusters::find(&raw, duration)?;
        Ok(Self {
            events,
            dispersion: clusters
                .map_or(1.0, |clusters| clusters.dispersion(events) - excess(events)),
            exposure,
        })
    }
}

/// Returns the mean excess of [`Clusters::dispersion`] over 1 for `events` independent
/// events. Dispersion is never below 1, so no single recording counts as more regular
/// than chance. By simulation, within .03 for 1 to 400 events.
fn excess(events: f64) -> f64 {
    match events {
        2.0.. => 0.14 + 1.05 / events,
        _ => 0.5,
    }
}

/// Comparison of two sets of recordings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetsCompared {
    /// Rate of the second side divided by the rate of the first, with the verdict.
    pub comparison: Comparison,
    /// Number of events of each side that count as one independent event.
    pub dispersions: [f64; 2],
    /// Variation between recordings, as a multiple of the variation that their own
    /// events explain; 1 if it is not larger.
    pub between: f64,
    /// Whether that is more than chance.
    pub varies: bool,
    /// Factor of the even growth of both sides' rates from the first recording to the last, if that
    /// is significant. Then the ratio is the ratio at equal times.
    pub trend: Option<f64>,
    /// Whether only the order prevents a verdict: it repeats itself, so a periodic job
    /// could be the difference, or hide one.
    pub is_of_order: bool,
    /// Number of pairs (first recording of each side, second of each, ...) whose
    /// difference has the opposite sign of the total; `None` if the sides differ in
    /// number.
    pub contradicting: Option<usize>,
    /// Whether at most one pair in four contradicts. True if the sides differ in
    /// number.
    pub pairs_agree: bool,
}

/// Compares the rates of two sets of recordings, each in order of time. Ratios within 1 /
/// `margin` and `margin` count as equal.
///
/// # Errors
/// If a side lacks recordings, or a number is out of its range.
pub fn compare_recordings(
    first: &[RecordingCount],
    second: &[RecordingCount],
    margin: f64,
    confidence: f64,
) -> Result<SetsCompared, InputError> {
    let unknown = RecordingOrder::new(Vec::new());
    compare_recordings_in_order(first, second, &unknown, (margin, confidence))
}

/// Compares the rates of two sets of recordings that were made in this `order`.
///
/// If the rates of both sides change evenly from recording to recording, the ratio is
/// computed with the time of the recording as a covariate.
///
/// If the order repeats itself, a job with the same period is in recordings of one side
/// only. Then the ratio must also hold with each position of the order as one observation,
/// with twice the error probability: the verdict needs both, so it is wrong no more often
/// (simulated in tests/it/verdicts.rs).
///
/// # Errors
/// As for [`compare_recordings`].
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
        for recording in side {
            not_negative("events", recording.events)?;
            not_negative("dispersion", recording.dispersion)?;
            positive("exposure", recording.exposure)?;
        }
    }
    let times = Times::new(order, sides.map(<[_]>::len));
    let trend = times
        .as_ref()
        .and_then(|times| times.trend(&logarithms(sides)));
    let levelled = [0, 1].map(|side| level(sides[side], side, trend.as_ref()));
    let sides = [&levelled[0][..], &levelled[1][..]];
    let lost = trend.as_ref().map_or(0.0, |_| 1.0);
    let dispersions = dispersions(sides);
    let (between, varies) = between(sides, dispersions, lost);
    let [before, after] = [0, 1].map(|side| {
        let per = dispersions[side] * between;
        (events(sides[side]) / per, exposure(sides[side]) / per)
    });
    let mut ratio = effective_ratio(before, after, confidence)?;
    let spread = trend.as_ref().map_or(0.0, |trend| trend.imbalance);
    let observations = Observations {
        logs: logarithms(sides),
        lost,
        spread,
    };
    observations.widen(&mut ratio, confidence);
    let by_recordings = judged(ratio, margin)?.verdict;
    match order.positions() {
        positions if positions.is_empty() => {}
        // With one position per side, a periodic job may be the whole difference.
        positions if positions.len() == 2 => {
            ratio.interval = Interval::new(0.0, f64::INFINITY);
            ratio.p = 1.0;
        }
        positions => {
            let mut logs = logarithms([first, second]);
            if let (Some(times), Some(_)) = (&times, &trend) {
                times.level_within(&positions, &mut logs);
            }
            let observations = Observations {
                logs: means_of_positions(&logs, &positions),
                lost: 0.0,
                spread: 0.0,
            };
            observations.widen(&mut ratio, confidence);
        }
    }
    let comparison = judged(ratio, margin)?;
    let contradicting = (first.len() == second.len()).then(|| contradicting(sides[0], sides[1]));
    Ok(SetsCompared {
        comparison,
        dispersions,
        between,
        varies,
        trend: trend.map(|trend| trend.growth),
        is_of_order: by_recordings != comparison.verdict,
        contradicting,
        pairs_agree: contradicting
            .is_none_or(|pairs| pairs <= first.len() / PAIRS_PER_CONTRADICTION),
    })
}

fn events(side: &[RecordingCount]) -> f64 {
    side.iter().map(|recording| recording.events).sum()
}

fn exposure(side: &[RecordingCount]) -> f64 {
    side.iter().map(|recording| recording.exposure).sum()
}

/// Returns for each side the mean dispersion of its recordings, weighted by their
/// events. A side without events gets the value of the other.
fn dispersions(sides: [&[RecordingCount]; 2]) -> [f64; 2] {
    let dispersion = sides.map(|side| {
        let weighed = side
            .iter()
            .map(|recording| recording.events * recording.dispersion);
        let total = events(side);
        (total > 0.0).then(|| (weighed.sum::<f64>() / total).max(1.0))
    });
    [0, 1].map(|side| dispersion[side].or(dispersion[1 - side]).unwrap_or(1.0))
}

/// Returns the recordings with exposures that make the rate level if it follows `trend`.
fn level(side: &[RecordingCount], index: usize, trend: Option<&Trend>) -> Vec<RecordingCount> {
    let mut levelled = side.to_vec();
    if let Some(trend) = trend {
        for (recording, factor) in levelled.iter_mut().zip(&trend.factors[index]) {
            recording.exposure *= factor;
        }
    }
    levelled
}

/// Returns the ratio of the recordings' variation to the variation that `dispersions` explain, and
/// whether it exceeds chance. A trend has taken `lost` degrees of freedom.
fn between(sides: [&[RecordingCount]; 2], dispersions: [f64; 2], lost: f64) -> (f64, bool) {
    let (statistic, freedom) = within(sides, dispersions);
    let freedom = freedom - lost;
    if freedom < 1.0 {
        return (1.0, false);
    }
    let ratio = statistic / freedom;
    let chance = ChiSquared::new(freedom).map_or(1.0, |chi| chi.sf(statistic));
    (ratio.max(1.0), chance < VARIATION_LEVEL)
}

/// Returns the squared deviations of the recordings from the rate of their side,
/// divided by their variances, and the degrees of freedom. Common factors of a pair,
/// such as the hour, count too. Differences of pairs have half the degrees of freedom
/// and detect variation too rarely (docs/validation/compare.md has both).
fn within(sides: [&[RecordingCount]; 2], dispersions: [f64; 2]) -> (f64, f64) {
    let (mut statistic, mut freedom) = (0.0, 0.0);
    for (side, dispersion) in sides.into_iter().zip(dispersions) {
        let rate = events(side) / exposure(side);
        if rate > 0.0 {
            freedom += side.len() as f64 - 1.0;
            statistic += side
                .iter()
                .map(|recording| (rate * recording.exposure, recording.events))
                .map(|(expected, events)| (events - expected).powi(2) / (expected * dispersion))
                .sum::<f64>();
        }
    }
    (statistic, freedom)
}

/// Returns the logarithms of the rates of the recordings. Half an event is added to
/// each count so that every logarithm exists.
fn logarithms(sides: [&[RecordingCount]; 2]) -> [Vec<f64>; 2] {
    let log = |recording: &RecordingCount| ((recording.events + 0.5) / recording.exposure).ln();
    sides.map(|side| side.iter().map(log).collect())
}

/// Returns the mean logarithms of the recordings at each position of an order that
/// repeats itself.
fn means_of_positions(logs: &[Vec<f64>; 2], positions: &[(usize, Vec<usize>)]) -> [Vec<f64>; 2] {
    [0, 1].map(|side| {
        let of_side = positions.iter().filter(|position| position.0 == side);
        let mean_of = |(_, recordings): &(usize, Vec<usize>)| {
            let logs: Vec<f64> = recordings
                .iter()
                .filter_map(|&index| logs[side].get(index).copied())
                .collect();
            mean(&logs)
        };
        of_side.map(mean_of).collect()
    })
}

/// Logarithms of the rates of both sides.
struct Observations {
    logs: [Vec<f64>; 2],
    /// Degrees of freedom that a trend has taken.
    lost: f64,
    /// Variance that the trend adds to the difference of the means, as a multiple of the
    /// variance of one logarithm.
    spread: f64,
}

impl Observations {
    /// Widens the interval so that the ratio also holds recording by recording: by
    /// Student's interval of the difference of the means of the rates' logarithms, which
    /// does not assume a reason for the variation. The interval has `error` times the error
    /// probability. Single recordings do not have such an interval.
    fn widen(&self, ratio: &mut RateRatio, confidence: f64) {
        let logs = &self.logs;
        let free = |side: &Vec<f64>| side.len() as f64 - 1.0;
        let freedom = free(&logs[0]) + free(&logs[1]) - self.lost;
        let Ok(student) = StudentsT::new(0.0, 1.0, freedom) else {
            return;
        };
        let middle = mean(&logs[1]) - mean(&logs[0]);
        let squares = |side: &Vec<f64>| match side.len() {
            // The deviation of a single recording is unknown.
            1 => 0.0,
            _ => variance(side) * free(side),
        };
        let pooled = (squares(&logs[0]) + squares(&logs[1])) / freedom;
        let each = |side: &Vec<f64>| 1.0 / side.len() as f64;
        let deviation = (pooled * (each(&logs[0]) + each(&logs[1]) + self.spread)).sqrt();
        let tail = (1.0 - confidence) / 2.0;
        let width = student.inverse_cdf(1.0 - tail) * deviation;
        ratio.interval.low = ratio.interval.low.min((middle - width).exp());
        ratio.interval.high = ratio.interval.high.max((middle + width).exp());
        if deviation > 0.0 {
            ratio.p = ratio.p.max(2.0 * student.sf(middle.abs() / deviation));
        }
    }
}

fn contradicting(first: &[RecordingCount], second: &[RecordingCount]) -> usize {
    let difference = |count: f64, per: f64, other: f64, other_exposure: f64| {
        (other / other_exposure).total_cmp(&(count / per))
    };
    let total = difference(
        events(first),
        exposure(first),
        events(second),
        exposure(second),
    );
    let pairs = first.iter().zip(second);
    let signs = pairs.map(|(a, b)| difference(a.events, a.exposure, b.events, b.exposure));
    signs
        .filter(|sign| *sign == total.reverse() && !total.is_eq())
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
        let recording = |&events: &u32| RecordingCount {
            events: f64::from(events),
            dispersion: 1.0,
            exposure: 60.0,
        };
        events.iter().map(recording).collect()
    }

    fn compared(first: &[u32], second: &[u32]) -> SetsCompared {
        compare_recordings(&counts(first), &counts(second), 1.25, 0.95).unwrap()
    }

    /// Otherwise every comparison would pay for bursts that do not exist.
    #[test]
    fn dispersion_of_independent_events_is_one_on_average() {
        let mut random = Pcg64Mcg::seed_from_u64(7);
        for count in [1, 2, 5, 10, 20, 60, 200] {
            let mut dispersion = || {
                let times = (0..count).map(|_| random.random::<f64>() * 300.0);
                let count = RecordingCount::new(times.collect(), 300.0, 300.0).unwrap();
                count.dispersion
            };
            let dispersions: Vec<f64> = (0..600).map(|_| dispersion()).collect();

            assert!(
                (mean(&dispersions) - 1.0).abs() < 0.06,
                "{count}: {}",
                mean(&dispersions)
            );
        }
    }

    #[test]
    fn agreeing_independent_events_are_compared_as_their_sums() {
        let result = compared(&[10, 9, 11], &[21, 19, 20]);

        let sums = effective_ratio((30.0, 180.0), (60.0, 180.0), 0.95).unwrap();
        assert_eq!(result.comparison.verdict, ComparisonVerdict::Worse);
        assert_eq!((result.between, result.contradicting), (1.0, Some(0)));
        let low = result.comparison.ratio.interval.low;
        assert!((low / sums.interval.low - 1.0).abs() < 1e-6);
    }

    #[test]
    fn recordings_that_vary_more_than_their_events_have_no_verdict() {
        // The same totals as above.
        let result = compared(&[2, 3, 25], &[40, 18, 2]);

        assert_eq!(result.comparison.verdict, ComparisonVerdict::Inconclusive);
        assert_eq!(result.contradicting, Some(1));
        assert!(result.between > 10.0, "{result:?}");
    }

    /// A tenfold difference, with recordings that vary by a factor of two.
    #[test]
    fn difference_far_above_the_variation_is_a_verdict() {
        let result = compared(&[5, 9, 2, 7, 4, 12], &[50, 90, 20, 70, 40, 120]);

        assert!(result.between > 1.0, "{result:?}");
        assert_eq!(result.comparison.verdict, ComparisonVerdict::Worse);
        let p = result.comparison.ratio.p;
        assert!((1e-6..1e-3).contains(&p), "{p}");
    }

    #[test]
    fn variation_common_to_a_pair_counts() {
        for second in [&[10, 100, 1_000][..], &[10, 100, 1_000, 500]] {
            let result = compared(&[5, 50, 500], second);

            assert!(result.between > 100.0, "{result:?}");
            assert_eq!(result.comparison.verdict, ComparisonVerdict::Inconclusive);
            assert_eq!(result.contradicting, (second.len() == 3).then_some(0));
        }
    }

    #[test]
    fn one_pair_of_four_may_contradict_and_two_may_not() {
        let single = compared(&[10, 12, 21, 9], &[24, 22, 20, 26]);
        let two = compared(&[10, 23, 21, 9], &[24, 22, 20, 26]);

        assert_eq!((single.contradicting, single.pairs_agree), (Some(1), true));
        assert_eq!((two.contradicting, two.pairs_agree), (Some(2), false));
    }

    #[test]
    fn storm_in_one_of_three_recordings_is_no_change() {
        let result = compared(&[0, 0, 0], &[30, 0, 0]);

        assert_eq!(
            result.comparison.verdict,
            ComparisonVerdict::Inconclusive,
            "{result:?}"
        );
    }

    #[test]
    fn burst_counts_as_one_event_on_a_side_without_events_too() {
        let burst = RecordingCount {
            events: 64.0,
            dispersion: 96.0,
            exposure: 60.0,
        };
        let none = RecordingCount {
            events: 0.0,
            ..burst
        };

        let result = compare_recordings(&[none], &[burst], 1.25, 0.95).unwrap();

        assert_eq!(result.comparison.verdict, ComparisonVerdict::Inconclusive);
        assert_eq!(result.dispersions, [96.0, 96.0]);
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

        let verdicts =
            [fixed, random, changed, alternating].map(|result| result.comparison.verdict);
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
    fn comparison_without_recordings_is_refused() {
        assert!(compare_recordings(&[], &counts(&[1]), 1.25, 0.95).is_err());
        assert!(compare_recordings(&counts(&[1]), &counts(&[1]), 1.0, 0.95).is_err());
    }

    proptest! {
        #[test]
        fn verdict_swaps_with_the_sides(
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

        /// Applies even if Student's interval finds the recordings of a side alike.
        #[test]
        fn variation_by_a_factor_equals_fewer_events_by_that_factor(
            a in prop::collection::vec(0..200_u32, 2..5), b in prop::collection::vec(0..200_u32, 2..5),
        ) {
            let result = compared(&a, &b);
            let side = |counts: &[u32]| {
                let events = f64::from(counts.iter().sum::<u32>());
                (events / result.between, 60.0 * counts.len() as f64 / result.between)
            };
            let fewer = effective_ratio(side(&a), side(&b), 0.95).unwrap();

            let (interval, least) = (result.comparison.ratio.interval, fewer.interval);
            prop_assert!(interval.low <= least.low && least.high <= interval.high, "{result:?}");
        }

        #[test]
        fn interval_contains_the_estimate(
            a in prop::collection::vec(0..200_u32, 1..5), b in prop::collection::vec(0..200_u32, 1..5),
        ) {
            let result = compared(&a, &b).comparison.ratio;
            if let Some(ratio) = result.ratio {
                prop_assert!(result.interval.contains(ratio), "{result:?}");
            }
        }
    }
}
