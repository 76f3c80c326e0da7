//! Ratio of two Poisson rates, conditional on the sum of the counts
//! (Clopper & Pearson 1934; Przyborowski & Wilenski 1940).

use statrs::distribution::{Beta, Binomial, ContinuousCDF, Discrete, Normal};
use statrs::function::beta::beta_reg;

use super::binomial;
use crate::input::{not_negative, positive, probability};
use crate::solve::root_between;
use crate::{InputError, Interval};

/// How the tails of the interval are counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Tails {
    /// The observed count belongs to each tail: coverage 0.96 to 0.99 at 95 %.
    #[default]
    Exact,
    /// Half of it does (mid-p): coverage 0.95 to 0.96, not guaranteed.
    MidP,
}

/// The ratio of two rates, second over first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRatio {
    /// The estimate; `None` when the first count is zero.
    pub ratio: Option<f64>,
    /// Its interval; the upper limit is infinite when the first count is zero.
    pub interval: Interval,
    /// Two-sided p-value of equal rates.
    pub p: f64,
}

/// The ratio of the rate `second.0 / second.1` to `first.0 / first.1`, each a
/// count of events and the exposure in which they fell.
///
/// # Errors
/// When an exposure or the confidence is out of its range.
pub fn rate_ratio(
    first: (u64, f64),
    second: (u64, f64),
    confidence: f64,
    tails: Tails,
) -> Result<RateRatio, InputError> {
    let exposures = (
        positive("first exposure", first.1)?,
        positive("second exposure", second.1)?,
    );
    let tail = (1.0 - probability("confidence", confidence)?) / 2.0;
    let events = first.0 + second.0;
    if events == 0 {
        return Ok(RateRatio {
            ratio: None,
            interval: Interval {
                low: 0.0,
                high: f64::INFINITY,
            },
            p: 1.0,
        });
    }
    let share = match tails {
        Tails::Exact => clopper_pearson(second.0, events, tail),
        Tails::MidP => mid_p(second.0, events, tail),
    };
    let odds = |share: f64| share / (1.0 - share) * exposures.0 / exposures.1;
    let equal = exposures.1 / (exposures.0 + exposures.1);
    Ok(RateRatio {
        ratio: (first.0 > 0)
            .then(|| (second.0 as f64 / exposures.1) / (first.0 as f64 / exposures.0)),
        interval: Interval {
            low: odds(share.low),
            high: if first.0 == 0 {
                f64::INFINITY
            } else {
                odds(share.high)
            },
        },
        p: binomial::two_sided(signed(second.0), events, equal),
    })
}

/// Above this the interval of a ratio of effective counts is the normal one of
/// its logarithm, which differs by less than 1 % from there on.
const MANY: f64 = 2_000.0;
/// Log odds at which a share is 0 or 1 to the last bit, and more.
const ODDS: (f64, f64) = (-700.0, 700.0);

/// [`rate_ratio`] of counts that need not be whole, by exact tails: so many
/// independent events tell as much as those that were counted.
///
/// # Errors
/// When a count, an exposure or the confidence is out of its range.
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
    // From odds of an event to be one of the second's to the ratio of rates.
    let scale = exposures.0 / exposures.1;
    if before.min(after) > MANY {
        let ratio = after / before * scale;
        let deviation = (1.0 / before + 1.0 / after).sqrt();
        let normal = Normal::standard();
        let width = (normal.inverse_cdf(1.0 - tail) * deviation).exp();
        return Ok(RateRatio {
            ratio: Some(ratio),
            interval: Interval {
                low: ratio / width,
                high: ratio * width,
            },
            p: 2.0 * normal.sf(ratio.ln().abs() / deviation),
        });
    }
    // P(the second has so many or more), and P(so many or fewer), by log odds.
    let share = |log: f64| 1.0 / (1.0 + (-log).exp());
    let or_more = |log: f64| match after > 0.0 {
        true => beta_reg(after, before + 1.0, share(log)),
        false => 1.0,
    };
    let or_fewer = |log: f64| match before > 0.0 {
        true => beta_reg(before, after + 1.0, share(-log)),
        false => 1.0,
    };
    let limit = |beyond: &dyn Fn(f64) -> f64| root_between(beyond, ODDS.0, ODDS.1).exp() * scale;
    let equal = -scale.ln();
    Ok(RateRatio {
        ratio: (before > 0.0).then(|| after / before * scale),
        interval: Interval {
            // Of far less than one event there is no limit within the odds.
            low: match or_more(ODDS.0) < tail {
                true => limit(&|log| or_more(log) - tail),
                false => 0.0,
            },
            high: match or_fewer(ODDS.1) < tail {
                true => limit(&|log| or_fewer(log) - tail),
                false => f64::INFINITY,
            },
        },
        p: (2.0 * or_more(equal).min(or_fewer(equal))).min(1.0),
    })
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Interval of a share from `count` of `events`, `tail` on either side.
fn clopper_pearson(count: u64, events: u64, tail: f64) -> Interval {
    let (k, rest) = (count as f64, (events - count) as f64);
    let limit = |a: f64, b: f64, p: f64| Beta::new(a, b).map_or(f64::NAN, |d| d.inverse_cdf(p));
    Interval {
        low: if count == 0 {
            0.0
        } else {
            limit(k, rest + 1.0, tail)
        },
        high: if count == events {
            1.0
        } else {
            limit(k + 1.0, rest, 1.0 - tail)
        },
    }
}

fn mid_p(count: u64, events: u64, tail: f64) -> Interval {
    let k = signed(count);
    let half = |share| Binomial::new(share, events).map_or(f64::NAN, |d| d.pmf(count)) / 2.0;
    let above = |share| binomial::at_least(k + 1, events, share) + half(share) - tail;
    let below = |share| binomial::at_most(k, events, share) - half(share) - tail;
    let (low, high) = (1e-12, 1.0 - 1e-12);
    Interval {
        low: if count == 0 {
            0.0
        } else {
            root_between(above, low, high)
        },
        high: if count == events {
            1.0
        } else {
            root_between(below, low, high)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    proptest! {
        #[test]
        fn swapping_the_arms_inverts_the_ratio(
            a in 0..200_u64, b in 0..200_u64, ta in 0.1..100.0_f64, tb in 0.1..100.0_f64,
        ) {
            let there = rate_ratio((a, ta), (b, tb), 0.95, Tails::Exact).unwrap();
            let back = rate_ratio((b, tb), (a, ta), 0.95, Tails::Exact).unwrap().interval.inverse();
            for (one, other) in [(there.interval.low, back.low), (there.interval.high, back.high)] {
                prop_assert!(one == other || (one / other - 1.0).abs() < 1e-6, "{one} {other}");
            }
        }

        #[test]
        fn effective_counts_that_are_whole_give_the_exact_interval(
            a in 0..300_u64, b in 0..300_u64, ta in 0.1..100.0_f64, tb in 0.1..100.0_f64,
        ) {
            let exact = rate_ratio((a, ta), (b, tb), 0.95, Tails::Exact).unwrap();
            let found = effective_ratio((a as f64, ta), (b as f64, tb), 0.95).unwrap();
            let alike = |one: f64, other: f64| one == other || (one / other - 1.0).abs() < 1e-6;
            prop_assert!(alike(exact.interval.low, found.interval.low), "{exact:?} {found:?}");
            prop_assert!(alike(exact.interval.high, found.interval.high), "{exact:?} {found:?}");
            prop_assert!((exact.p - found.p).abs() < 1e-9, "{exact:?} {found:?}");
        }

        #[test]
        fn the_fewer_independent_events_there_are_the_wider_is_the_interval(
            a in 0.1..500.0_f64, b in 0.1..500.0_f64, fewer in 1.01..50.0_f64,
        ) {
            let all = effective_ratio((a, 1.0), (b, 1.0), 0.95).unwrap();
            let less = effective_ratio((a / fewer, 1.0 / fewer), (b / fewer, 1.0 / fewer), 0.95).unwrap();
            prop_assert!(less.interval.low < all.interval.low && less.interval.high > all.interval.high);
            prop_assert!(less.p >= all.p * 0.999_999);
        }

        #[test]
        fn the_step_to_many_events_is_small(ratio in 0.5..2.0_f64) {
            let at = |count: f64| effective_ratio((count, 1.0), (count * ratio.max(1.0), 1.0), 0.95).unwrap();
            let (exact, normal) = (at(MANY), at(MANY + 1.0));
            prop_assert!((exact.interval.low / normal.interval.low - 1.0).abs() < 1e-3);
            prop_assert!((exact.interval.high / normal.interval.high - 1.0).abs() < 1e-3);
        }

        #[test]
        fn the_exact_interval_holds_the_mid_p_interval(a in 1..100_u64, b in 1..100_u64) {
            let exact = rate_ratio((a, 1.0), (b, 1.0), 0.95, Tails::Exact).unwrap().interval;
            let mid = rate_ratio((a, 1.0), (b, 1.0), 0.95, Tails::MidP).unwrap().interval;
            prop_assert!(exact.low <= mid.low && mid.high <= exact.high);
        }
    }
}
