//! Tests of the independence of peaks and of a steady process (docs/method.md 8.6).

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, Uniform};
use statrs::stats_tests::NaNPolicy;
use statrs::stats_tests::ks_test::{KSOneSampleAlternativeMethod, ks_onesample};

use crate::InputError;
use crate::input::{at_least, finite, positive};
use crate::sample::{index, mean, variance};

/// Critical value of [`kpss`] for rejecting a constant level at 1 %.
pub const KPSS_CRITICAL_1_PERCENT: f64 = 0.739;
/// Test statistic with its p-value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistic {
    /// Value of the statistic.
    pub value: f64,
    /// Two-sided p-value.
    pub p: f64,
}

/// Returns the values minus their mean. They must not all be equal.
fn deviations(values: &[f64], needed: usize) -> Result<Vec<f64>, InputError> {
    at_least("values", values, needed.max(2))?;
    finite("values", values)?;
    positive("variance of values", variance(values))?;
    let mean = mean(values);
    Ok(values.iter().map(|value| value - mean).collect())
}

/// Returns the sum of products of values `lag` apart.
fn lagged(values: &[f64], lag: usize) -> f64 {
    let pairs = values.iter().zip(&values[lag..]);
    pairs.map(|(early, late)| early * late).sum()
}

/// Tests autocorrelation up to `lags` (Ljung & Box 1978).
///
/// # Errors
/// If there are not more values than lags, or all are equal.
pub fn ljung_box(values: &[f64], lags: usize) -> Result<Statistic, InputError> {
    let values = deviations(values, lags + 1)?;
    let n = values.len() as f64;
    let power = lagged(&values, 0);
    let sum: f64 = (1..=lags)
        .map(|lag| (lagged(&values, lag) / power).powi(2) / (n - lag as f64))
        .sum();
    let value = n * (n + 2.0) * sum;
    let p = ChiSquared::new(lags as f64).map_or(f64::NAN, |chi| chi.sf(value));
    Ok(Statistic { value, p })
}

/// Returns the statistic of a constant level (Kwiatkowski, Phillips, Schmidt & Shin
/// 1992) with a Bartlett window of 4 (n / 100)^(1/4) lags; compare it with
/// [`KPSS_CRITICAL_1_PERCENT`].
///
/// # Errors
/// With fewer than 10 values, or if all are equal.
pub fn kpss(values: &[f64]) -> Result<f64, InputError> {
    let values = deviations(values, 10)?;
    let n = values.len() as f64;
    let lags = index(4.0 * (n / 100.0).powf(0.25));
    let long_run: f64 = (1..=lags)
        .map(|lag| (1.0 - lag as f64 / (lags as f64 + 1.0)) * lagged(&values, lag))
        .sum();
    let variance = lagged(&values, 0) / n + 2.0 / n * long_run;
    positive("long-run variance", variance)?;
    let mut walk = 0.0;
    let mut squares = 0.0;
    for value in &values {
        walk += value;
        squares += walk * walk;
    }
    Ok(squares / (n * n * variance))
}

fn two_sided_normal(deviate: f64) -> f64 {
    2.0 * Normal::standard().sf(deviate.abs())
}

/// Test of event times against a process of constant rate, given their number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uniformity {
    /// p-value of the Kolmogorov-Smirnov test against a uniform distribution.
    pub uniform_p: f64,
    /// p-value of Laplace's test for a trend.
    pub trend_p: f64,
}

/// Tests event `times` within 0 to `exposure`.
///
/// # Errors
/// With fewer than two times, or an exposure that is not positive.
pub fn uniform_times(times: &[f64], exposure: f64) -> Result<Uniformity, InputError> {
    at_least("times", times, 2)?;
    finite("times", times)?;
    positive("exposure", exposure)?;
    let n = times.len() as f64;
    let trend = (mean(times) - exposure / 2.0) / (exposure / (12.0 * n).sqrt());
    let uniform = Uniform::new(0.0, exposure).ok().and_then(|uniform| {
        let method = KSOneSampleAlternativeMethod::TwoSidedAsymptotic;
        ks_onesample(times.to_vec(), &uniform, method, NaNPolicy::Error).ok()
    });
    Ok(Uniformity {
        uniform_p: uniform.map_or(f64::NAN, |(_, p)| p),
        trend_p: two_sided_normal(trend),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    /// Critical value of KPSS at 5 % (Kwiatkowski et al. 1992, table 1).
    const KPSS_CRITICAL_5_PERCENT: f64 = 0.463;

    #[test]
    fn tests_reject_at_about_their_nominal_rate() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(2);
        let runs = 500;
        let mut rejected = [0; 4];
        for _ in 0..runs {
            let x: Vec<f64> = (0..200).map(|_| random.random::<f64>()).collect();
            let uniformity = uniform_times(&x, 1.0).unwrap();
            let rejections = [
                ljung_box(&x, 10).unwrap().p < 0.05,
                kpss(&x).unwrap() > KPSS_CRITICAL_5_PERCENT,
                uniformity.uniform_p < 0.05,
                uniformity.trend_p < 0.05,
            ];
            for (count, rejection) in rejected.iter_mut().zip(rejections) {
                *count += i32::from(rejection);
            }
        }
        for (test, count) in ["Ljung-Box", "KPSS", "uniform", "trend"]
            .iter()
            .zip(rejected)
        {
            let share = f64::from(count) / f64::from(runs);
            assert!((0.02..0.09).contains(&share), "{test}: {share}");
        }
    }

    #[test]
    fn growing_rate_is_detected() {
        let late: Vec<f64> = (0..200).map(|i| f64::from(i).sqrt()).collect();

        let uniformity = uniform_times(&late, 200_f64.sqrt()).unwrap();

        assert!(uniformity.uniform_p < 0.01 && uniformity.trend_p < 0.01);
    }

    #[test]
    fn equal_values_have_no_correlation_and_are_refused() {
        assert!(ljung_box(&[2.0; 40], 10).is_err());
        assert!(kpss(&[2.0; 40]).is_err());
    }
}
