//! Ratio of two means, for example of amounts of work.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::input::{all_positive, at_least, probability};
use crate::sample::{mean, variance};
use crate::{InputError, Interval};

/// Ratio of the geometric mean of the second sample to the geometric mean of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanRatio {
    /// Both geometric means.
    pub means: [f64; 2],
    /// Second mean divided by the first.
    pub ratio: f64,
    /// Interval of the ratio; `None` if a side has a single value.
    pub interval: Option<Interval>,
}

/// Computes the ratio of the geometric means of two samples of positive values. The
/// interval is Welch's (1947) for the difference of the means of the logarithms.
///
/// The interval does not apply to arithmetic means. A single value can dominate an arithmetic mean,
/// and the ratio of arithmetic means may lie outside the interval.
///
/// # Errors
/// If a sample is empty, a value is not positive, or the confidence is out of its
/// range.
pub fn mean_ratio(first: &[f64], second: &[f64], confidence: f64) -> Result<MeanRatio, InputError> {
    let share = 0.5 + probability("confidence", confidence)? / 2.0;
    for (name, sample) in [("first sample", first), ("second sample", second)] {
        at_least(name, sample, 1)?;
        all_positive(name, sample)?;
    }
    let logs =
        [first, second].map(|values| values.iter().map(|value| value.ln()).collect::<Vec<f64>>());
    let is_known = logs.iter().all(|values| values.len() > 1);
    let interval = is_known.then(|| {
        let [first_part, second_part] = logs
            .each_ref()
            .map(|values| variance(values) / values.len() as f64);
        let freedom = |part: f64, values: &[f64]| part * part / (values.len() as f64 - 1.0);
        let sum = first_part + second_part;
        let freedom = freedom(first_part, &logs[0]) + freedom(second_part, &logs[1]);
        let student = StudentsT::new(0.0, 1.0, sum * sum / freedom);
        // If all values are equal, the variance is zero.
        let width = student.map_or(0.0, |t| t.inverse_cdf(share) * sum.sqrt());
        let middle = mean(&logs[1]) - mean(&logs[0]);
        Interval::new((middle - width).exp(), (middle + width).exp())
    });
    let means = [first, second].map(geometric_mean);
    Ok(MeanRatio {
        means,
        ratio: means[1] / means[0],
        interval,
    })
}

/// Returns the geometric mean: 0 if a value is 0, NaN without values.
pub fn geometric_mean(values: &[f64]) -> f64 {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    mean(&logs).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threefold_work_has_ratio_three_with_interval() {
        let ratio = mean_ratio(&[95.0, 100.0, 105.0], &[285.0, 300.0, 315.0], 0.95).unwrap();

        let interval = ratio.interval.unwrap();
        assert!((ratio.ratio - 3.0).abs() < 1e-9);
        // Four degrees of freedom: 2.7764 x sqrt(2 x 0.050083^2 / 3) = 0.11353.
        assert!(
            (interval.low - 3.0 * (-0.113_53_f64).exp()).abs() < 2e-3,
            "{ratio:?}"
        );
        assert!(
            (interval.high - 3.0 * 0.113_53_f64.exp()).abs() < 2e-3,
            "{ratio:?}"
        );
    }

    /// The arithmetic means differ by a factor of 80, with an interval from 0.43 to
    /// 8.8.
    #[test]
    fn interval_contains_its_ratio_with_an_outlier() {
        let first = [50.0, 52.0, 49.0, 51.0, 50.0, 53.0, 48.0, 50.0, 51.0, 49.0];
        let mut second = first;
        second[3] = 40_000.0;

        let ratio = mean_ratio(&first, &second, 0.95).unwrap();

        let interval = ratio.interval.unwrap();
        assert!(
            interval.low < 1.0,
            "an interval with an outlier excludes no change: {ratio:?}"
        );
        let middle = (interval.low * interval.high).sqrt();
        assert!((ratio.ratio / middle - 1.0).abs() < 1e-9, "{ratio:?}");
        assert!((ratio.ratio - 1.947).abs() < 1e-3, "{ratio:?}");
        assert!((ratio.means[1] / ratio.means[0] - ratio.ratio).abs() < 1e-9);
    }

    #[test]
    fn single_value_has_no_interval_and_equal_values_no_width() {
        assert_eq!(
            mean_ratio(&[1.0], &[2.0, 3.0], 0.95).unwrap().interval,
            None
        );
        let same = mean_ratio(&[2.0; 3], &[2.0; 3], 0.95).unwrap();
        let unit = Interval::new(1.0, 1.0);
        assert_eq!(same.interval, Some(unit));
        assert!(mean_ratio(&[0.0], &[1.0], 0.95).is_err());
    }
}
