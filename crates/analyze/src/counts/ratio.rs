//! Ratio of two Poisson rates, conditional on the sum of the counts (Clopper & Pearson
//! 1934; Przyborowski & Wilenski 1940).

use statrs::distribution::{ContinuousCDF, Normal};
use statrs::function::beta::beta_reg;

use crate::input::{not_negative, positive, probability};
use crate::solve::root_between;
use crate::{InputError, Interval};

/// Ratio of two rates, second divided by first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRatio {
    /// Estimate; `None` if the first count is zero.
    pub ratio: Option<f64>,
    /// Interval; the upper limit is infinite if the first count is zero.
    pub interval: Interval,
    /// Two-sided p-value of equal rates.
    pub p: f64,
}

/// With more events, the interval of a ratio of effective counts is the normal interval of its
/// logarithm. The difference is less than 1 % there.
const MANY: f64 = 2_000.0;
/// Log odds of a fraction that is 0 or 1 in double precision.
const ODDS: (f64, f64) = (-700.0, 700.0);

/// Returns the ratio of the rate `second.0 / second.1` to `first.0 / first.1`, each a
/// count of events and its exposure. The tails are exact (the observed count belongs to
/// each): coverage 0.96 to 0.99 at 95 %. Counts need not be integers: they can be
/// effective numbers of independent events.
///
/// # Errors
/// If a count, an exposure or the confidence is out of its range.
pub fn effective_ratio(
    first: (f64, f64),
    second: (f64, f64),
    confidence: f64,
) -> Result<RateRatio, InputError> {
    let (before, after) = (
        not_negative("first count", first.0)?,
        not_negative("second count", second.0)?,
    );
    let exposures = (
        positive("first exposure", first.1)?,
        positive("second exposure", second.1)?,
    );
    let tail = (1.0 - probability("confidence", confidence)?) / 2.0;
    // Factor from the odds that an event is in the second count to the ratio of rates.
    let scale = exposures.0 / exposures.1;
    if before.min(after) > MANY {
        let ratio = after / before * scale;
        let deviation = (1.0 / before + 1.0 / after).sqrt();
        let normal = Normal::standard();
        let width = (normal.inverse_cdf(1.0 - tail) * deviation).exp();
        return Ok(RateRatio {
            ratio: Some(ratio),
            interval: Interval::new(ratio / width, ratio * width),
            p: 2.0 * normal.sf(ratio.ln().abs() / deviation),
        });
    }
    // P(the second count is this or more) and P(this or fewer), by log odds.
    let share = |log: f64| 1.0 / (1.0 + (-log).exp());
    let or_more = |log: f64| {
        if after > 0.0 {
            beta_reg(after, before + 1.0, share(log))
        } else {
            1.0
        }
    };
    let or_fewer = |log: f64| {
        if before > 0.0 {
            beta_reg(before, after + 1.0, share(-log))
        } else {
            1.0
        }
    };
    let limit = |beyond: &dyn Fn(f64) -> f64| root_between(beyond, ODDS.0, ODDS.1).exp() * scale;
    let equal = -scale.ln();
    Ok(RateRatio {
        ratio: (before > 0.0).then(|| after / before * scale),
        interval: Interval {
            // With far less than one event, the limit is outside the range of odds.
            low: if or_more(ODDS.0) < tail {
                limit(&|log| or_more(log) - tail)
            } else {
                0.0
            },
            high: if or_fewer(ODDS.1) < tail {
                limit(&|log| or_fewer(log) - tail)
            } else {
                f64::INFINITY
            },
        },
        p: (2.0 * or_more(equal).min(or_fewer(equal))).min(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};
    use statrs::distribution::Beta;

    /// Returns the interval of a fraction from `count` of `events`, with `tail` on
    /// either side.
    fn clopper_pearson(count: u32, events: u32, tail: f64) -> Interval {
        let (k, rest) = (f64::from(count), f64::from(events - count));
        let limit = |a: f64, b: f64, p: f64| Beta::new(a, b).map_or(f64::NAN, |d| d.inverse_cdf(p));
        let low = (count > 0).then(|| limit(k, rest + 1.0, tail));
        let high = (count < events).then(|| limit(k + 1.0, rest, 1.0 - tail));
        Interval::new(low.unwrap_or(0.0), high.unwrap_or(1.0))
    }

    proptest! {
        #[test]
        fn ratio_is_inverted_if_the_arms_swap(
            a in 0..200_u32, b in 0..200_u32, ta in 0.1..100.0_f64, tb in 0.1..100.0_f64,
        ) {
            let (first, second) = ((f64::from(a), ta), (f64::from(b), tb));
            let there = effective_ratio(first, second, 0.95).unwrap();
            let back = effective_ratio(second, first, 0.95).unwrap().interval.inverse();
            for (a, b) in [(there.interval.low, back.low), (there.interval.high, back.high)] {
                prop_assert!(a == b || (a / b - 1.0).abs() < 1e-6, "{a} {b}");
            }
        }

        #[test]
        fn integer_effective_counts_give_the_exact_interval(
            a in 0..300_u32, b in 0..300_u32, ta in 0.1..100.0_f64, tb in 0.1..100.0_f64,
        ) {
            let ratio = effective_ratio((f64::from(a), ta), (f64::from(b), tb), 0.95).unwrap();
            let share = clopper_pearson(b, a + b, 0.025);
            let odds = |share: f64| share / (1.0 - share) * ta / tb;
            let alike = |a: f64, b: f64| a == b || (a / b - 1.0).abs() < 1e-6;
            prop_assert!(alike(odds(share.low), ratio.interval.low), "{share:?} {ratio:?}");
            prop_assert!(alike(odds(share.high), ratio.interval.high), "{share:?} {ratio:?}");
        }

        #[test]
        fn interval_is_wider_with_fewer_independent_events(
            a in 0.1..500.0_f64, b in 0.1..500.0_f64, fewer in 1.01..50.0_f64,
        ) {
            let ratio = effective_ratio((a, 1.0), (b, 1.0), 0.95).unwrap();
            let less = effective_ratio((a / fewer, 1.0 / fewer), (b / fewer, 1.0 / fewer), 0.95).unwrap();
            prop_assert!(less.interval.low < ratio.interval.low && less.interval.high > ratio.interval.high);
            prop_assert!(less.p >= ratio.p * 0.999_999);
        }

        #[test]
        fn step_to_many_events_is_small(ratio in 0.5..2.0_f64) {
            let ratio_of = |count: f64| effective_ratio((count, 1.0), (count * ratio.max(1.0), 1.0), 0.95).unwrap();
            let (exact, normal) = (ratio_of(MANY), ratio_of(MANY + 1.0));
            prop_assert!((exact.interval.low / normal.interval.low - 1.0).abs() < 1e-3);
            prop_assert!((exact.interval.high / normal.interval.high - 1.0).abs() < 1e-3);
        }
    }
}
