//! Verdict on two rates of exceedances.

use crate::InputError;
use crate::counts::RateRatio;
use crate::input::between;

/// Verdict on the second system, compared with the first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ComparisonVerdict {
    /// The second system is late more often.
    Worse,
    /// The second system is late less often.
    Better,
    /// Both are equal within the margin.
    Equivalent,
    /// The recordings are too short for a verdict.
    Inconclusive,
}

/// Verdict on a difference by a factor of ten or more (OSDI'99: "an order of
/// magnitude").
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Magnitude {
    /// The second is worse by a factor of at least ten.
    TenTimesWorse,
    /// The second is better by a factor of at least ten.
    TenTimesBetter,
    /// A factor of ten is possible, and so is less.
    Compatible,
    /// The difference is less than a factor of ten.
    Less,
}

/// Comparison of two rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Second rate divided by the first.
    pub ratio: RateRatio,
    /// Verdict on the ratio.
    pub verdict: ComparisonVerdict,
    /// Verdict on an order of magnitude.
    pub magnitude: Magnitude,
}

/// Judges a ratio. Ratios within 1 / `margin` and `margin` count as equal; 1.25 is
/// usual.
///
/// # Errors
/// If the margin is out of its range.
pub(super) fn judged(ratio: RateRatio, margin: f64) -> Result<Comparison, InputError> {
    between("margin", margin, (1.0, f64::INFINITY), "above 1")?;
    let (low, high) = (ratio.interval.low, ratio.interval.high);
    let verdict = if low > 1.0 {
        ComparisonVerdict::Worse
    } else if high < 1.0 {
        ComparisonVerdict::Better
    } else if low > 1.0 / margin && high < margin {
        ComparisonVerdict::Equivalent
    } else {
        ComparisonVerdict::Inconclusive
    };
    let magnitude = if low >= 10.0 {
        Magnitude::TenTimesWorse
    } else if high <= 0.1 {
        Magnitude::TenTimesBetter
    } else if ratio.interval.contains(10.0) || ratio.interval.contains(0.1) {
        Magnitude::Compatible
    } else {
        Magnitude::Less
    };
    Ok(Comparison {
        ratio,
        verdict,
        magnitude,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::effective_ratio;
    use proptest::prelude::{prop_assert_eq, proptest};

    /// Compares counts in equal times.
    fn compared(first: f64, second: f64) -> Comparison {
        let ratio = effective_ratio((first, 10.0), (second, 10.0), 0.95).unwrap();
        judged(ratio, 1.25).unwrap()
    }

    proptest! {
        #[test]
        fn verdict_swaps_with_the_systems(a in 0..300_u32, b in 0..300_u32) {
            let there = compared(a.into(), b.into()).verdict;
            let back = compared(b.into(), a.into()).verdict;
            let swapped = match there {
                ComparisonVerdict::Worse => ComparisonVerdict::Better,
                ComparisonVerdict::Better => ComparisonVerdict::Worse,
                other => other,
            };
            prop_assert_eq!(back, swapped);
        }
    }

    #[test]
    fn verdict_without_events_is_inconclusive() {
        let comparison = compared(0.0, 0.0);

        assert_eq!(comparison.verdict, ComparisonVerdict::Inconclusive);
        assert_eq!(comparison.magnitude, Magnitude::Compatible);
    }
}
