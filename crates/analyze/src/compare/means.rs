//! Ratio of two means, such as of how much work was done.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::input::{all_positive, at_least, probability};
use crate::sample::{mean, variance};
use crate::{InputError, Interval};

/// The ratio of the geometric mean of the second sample to that of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanRatio {
    /// Both geometric means.
    pub means: [f64; 2],
    /// The second over the first.
    pub ratio: f64,
    /// Its interval; `None` with one value on a side.
    pub interval: Option<Interval>,
}

/// The ratio of the geometric means of two samples of positive values, with Welch's
/// (1947) interval of the difference of the means of their logarithms.
///
/// Of the arithmetic means, which one value of many may be most of, that interval is
/// not: their ratio may lie outside it.
///
/// # Errors
/// When a sample is empty, a value is not positive, or the confidence is out of
/// its range.
pub fn mean_ratio(first: &[f64], second: &[f64], confidence: f64) -> Result<MeanRatio, InputError> {
    let share = 0.5 + probability("confidence", confidence)? / 2.0;
    for (name, sample) in [("first sample", first), ("second sample", second)] {
        at_least(name, sample, 1)?;
        all_positive(name, sample)?;
    }
    let logs = [first, second].map(|all| all.iter().map(|one| one.ln()).collect::<Vec<f64>>());
    let is_known = logs.iter().all(|all| all.len() > 1);
    let interval = is_known.then(|| {
        let [one, other] = logs.each_ref().map(|all| variance(all) / all.len() as f64);
        let freedom = |part: f64, all: &[f64]| part * part / (all.len() as f64 - 1.0);
        let sum = one + other;
        let all = freedom(one, &logs[0]) + freedom(other, &logs[1]);
        let student = StudentsT::new(0.0, 1.0, sum * sum / all);
        // Of values that are all equal there is nothing to estimate.
        let width = student.map_or(0.0, |t| t.inverse_cdf(share) * sum.sqrt());
        let middle = mean(&logs[1]) - mean(&logs[0]);
        Interval {
            low: (middle - width).exp(),
            high: (middle + width).exp(),
        }
    });
    let means = [first, second].map(geometric_mean);
    Ok(MeanRatio {
        means,
        ratio: means[1] / means[0],
        interval,
    })
}

/// The geometric mean; 0 where a value is 0, not a number of none.
pub fn geometric_mean(values: &[f64]) -> f64 {
    let logs: Vec<f64> = values.iter().map(|one| one.ln()).collect();
    mean(&logs).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_times_the_work_is_found_with_its_interval() {
        let found = mean_ratio(&[95.0, 100.0, 105.0], &[285.0, 300.0, 315.0], 0.95).unwrap();

        let interval = found.interval.unwrap();
        assert!((found.ratio - 3.0).abs() < 1e-9);
        // Four degrees of freedom: 2.7764 x sqrt(2 x 0.050083^2 / 3) = 0.11353.
        assert!(
            (interval.low - 3.0 * (-0.113_53_f64).exp()).abs() < 2e-3,
            "{found:?}"
        );
        assert!(
            (interval.high - 3.0 * 0.113_53_f64.exp()).abs() < 2e-3,
            "{found:?}"
        );
    }

    /// The arithmetic means are 80 times apart, with an interval from 0.43 to 8.8.
    #[test]
    fn an_interval_holds_its_own_ratio_however_far_off_one_value_is() {
        let first = [50.0, 52.0, 49.0, 51.0, 50.0, 53.0, 48.0, 50.0, 51.0, 49.0];
        let mut second = first;
        second[3] = 40_000.0;

        let found = mean_ratio(&first, &second, 0.95).unwrap();

        let interval = found.interval.unwrap();
        assert!(
            interval.low < 1.0,
            "one value tells of no change: {found:?}"
        );
        let middle = (interval.low * interval.high).sqrt();
        assert!((found.ratio / middle - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.ratio - 1.947).abs() < 1e-3, "{found:?}");
        assert!((found.means[1] / found.means[0] - found.ratio).abs() < 1e-9);
    }

    #[test]
    fn one_value_has_no_interval_and_equal_ones_no_width() {
        assert_eq!(
            mean_ratio(&[1.0], &[2.0, 3.0], 0.95).unwrap().interval,
            None
        );
        let same = mean_ratio(&[2.0; 3], &[2.0; 3], 0.95).unwrap();
        let one = Interval {
            low: 1.0,
            high: 1.0,
        };
        assert_eq!(same.interval, Some(one));
        assert!(mean_ratio(&[0.0], &[1.0], 0.95).is_err());
    }
}
