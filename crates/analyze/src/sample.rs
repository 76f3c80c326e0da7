//! Statistics of a sample of finite numbers.

/// Returns the arithmetic mean; NaN for an empty sample.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the variance with divisor n - 1; NaN below two values.
pub(crate) fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    squares / (values.len() as f64 - 1.0)
}

/// Returns the sample in ascending order.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the sample in descending order.
pub(crate) fn descending(values: &[f64]) -> Vec<f64> {
    let mut sorted = sorted(values);
    sorted.reverse();
    sorted
}

/// Returns the integer part as an index; zero for negative values and NaN.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the index of a sample fits"
)]
pub(crate) const fn index(value: f64) -> usize {
    value as usize
}

/// Returns the `share` quantile of an ascending, non-empty sample, interpolated
/// linearly between order statistics (Hyndman & Fan 1996, type 7).
pub(crate) fn quantile(ascending: &[f64], share: f64) -> f64 {
    let last = ascending.len() - 1;
    let rank = share * last as f64;
    let below = index(rank).min(last);
    let part = rank - below as f64;
    let above = (below + 1).min(last);
    ascending[below] + part * (ascending[above] - ascending[below])
}

/// Returns the median; the mean of the two middle values for an even number.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values), 0.5)
}
