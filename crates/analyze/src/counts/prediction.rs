//! Prediction of a future count (Nelson 1982, "Applied Life Data Analysis", 6.2: the
//! conditional method for a future Poisson count).

use statrs::function::beta::beta_reg;

use crate::input::{not_negative, positive, probability};
use crate::{InputError, Interval};

/// Maximum count of the search.
const MAX_COUNT: u64 = 1 << 40;

/// Predicts the count of the next `future` after `events` in `exposure` at the same
/// rate. Given the sum of both, the split is binomial. The coverage is at least
/// `confidence` for any rate.
///
/// If the variance of counts is `dispersion` times the variance of Poisson counts, that number of
/// events counts as one. Values below 1 count as 1.
///
/// # Errors
/// If a number is out of its range.
pub fn predicted_count(
    events: f64,
    exposure: f64,
    future: f64,
    dispersion: f64,
    confidence: f64,
) -> Result<Interval, InputError> {
    let size = not_negative("dispersion", dispersion)?.max(1.0);
    let before = not_negative("events", events)? / size;
    let share = positive("exposure", exposure)? / (exposure + positive("future", future)?);
    let tail = (1.0 - probability("confidence", confidence)?) / 2.0;
    // P(the next count is `count` or less), and P(it is `count` or more).
    let at_most = |count: f64| {
        if before > 0.0 {
            beta_reg(before, count + 1.0, share)
        } else {
            1.0
        }
    };
    let at_least = |count: f64| {
        if count > 0.0 {
            1.0 - beta_reg(before + 1.0, count, share)
        } else {
            1.0
        }
    };
    let low = first(|count| at_most(count / size) > tail);
    let high = first(|count| at_least(count / size) <= tail) - 1.0;
    Ok(Interval::new(low, high.max(low)))
}

/// Returns the first integer from 0 that satisfies `is_reached`, which must be
/// monotone.
fn first(is_reached: impl Fn(f64) -> bool) -> f64 {
    if is_reached(0.0) {
        return 0.0;
    }
    let mut above = 1_u64;
    while above < MAX_COUNT && !is_reached(above as f64) {
        above *= 2;
    }
    let mut below = above / 2;
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if is_reached(middle as f64) {
            above = middle
        } else {
            below = middle
        }
    }
    above as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};
    use statrs::distribution::{Discrete, Poisson};

    fn interval(events: f64, dispersion: f64) -> Interval {
        predicted_count(events, 60.0, 30.0, dispersion, 0.95).unwrap()
    }

    #[test]
    fn no_events_in_an_equal_time_predict_at_most_five() {
        // The limit is the sixth: 0.5^6 < 2.5 %.
        let count = predicted_count(0.0, 60.0, 60.0, 1.0, 0.95).unwrap();

        assert_eq!(count, Interval::new(0.0, 5.0));
    }

    #[test]
    fn future_count_is_covered_at_any_rate() {
        for mean in [0.3, 2.0, 7.0, 30.0] {
            let chance = |mean: f64, count: u32| Poisson::new(mean).unwrap().pmf(count.into());
            let covered: f64 = (0..120)
                .map(|before| {
                    let count = interval(before.into(), 1.0);
                    let inside: f64 = (0..120_u32)
                        .filter(|&after| count.contains(after.into()))
                        .map(|after| chance(mean / 2.0, after))
                        .sum();
                    chance(mean, before) * inside
                })
                .sum();
            // Small counts do not have exact 2.5 % limits.
            let most = if mean < 10.0 { 1.0 } else { 0.98 };
            assert!(
                (0.95..most).contains(&covered),
                "{covered} at a mean of {mean}"
            );
        }
    }

    #[test]
    fn counts_in_bursts_have_a_wider_prediction() {
        let (single, bursts) = (interval(40.0, 1.0), interval(40.0, 4.0));

        assert!(bursts.low < single.low && bursts.high > single.high);
        assert_eq!(interval(40.0, 0.3), single);
    }

    /// Ten bursts of four are predicted as ten events of four each.
    #[test]
    fn burst_counts_as_one_event_of_its_size() {
        for (before, size) in [(10.0, 4.0), (3.0, 2.0), (40.0, 7.0)] {
            let (alone, bursts) = (interval(before, 1.0), interval(before * size, size));

            let low = size * (alone.low - 1.0)..=size * alone.low;
            let high = size * alone.high..=size * (alone.high + 1.0);
            assert!(low.contains(&bursts.low), "{bursts:?} of {alone:?}");
            assert!(high.contains(&bursts.high), "{bursts:?} of {alone:?}");
        }
    }

    proptest! {
        #[test]
        fn mean_is_inside_and_more_events_raise_both_limits(
            events in 0.0..500.0_f64, more in 1.0..50.0_f64, dispersion in 0.0..9.0_f64,
        ) {
            let (fewer, greater) = (interval(events, dispersion), interval(events + more, dispersion));

            prop_assert!(fewer.low <= events / 2.0 && events / 2.0 <= fewer.high + 1.0);
            prop_assert!(fewer.low <= greater.low && fewer.high <= greater.high);
        }
    }
}
