//! Figures of a sample of finite numbers.

/// The arithmetic mean; not a number for an empty sample.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The variance with divisor n - 1; not a number below two values.
pub(crate) fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    squares / (values.len() as f64 - 1.0)
}

/// The sample in ascending order.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The sample in descending order.
pub(crate) fn descending(values: &[f64]) -> Vec<f64> {
    let mut sorted = sorted(values);
    sorted.reverse();
    sorted
}

/// The whole part as an index; zero for what is negative or not a number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no sample is so large that an index of it would not fit"
)]
pub(crate) const fn index(value: f64) -> usize {
    value as usize
}

/// The `share` quantile of an ascending, non-empty sample, interpolated
/// linearly between order statistics (Hyndman & Fan 1996, type 7).
pub(crate) fn quantile(ascending: &[f64], share: f64) -> f64 {
    let last = ascending.len() - 1;
    let rank = share * last as f64;
    let below = index(rank).min(last);
    let part = rank - below as f64;
    let above = (below + 1).min(last);
    ascending[below] + part * (ascending[above] - ascending[below])
}

/// Halfway between the middle values.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values), 0.5)
}
