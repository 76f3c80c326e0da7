//! Gaps between events (docs/method.md 11).

use crate::InputError;
use crate::input::{ascending, at_least, finite};

/// The share of gaps between ascending `times` that lie above `low` and below
/// `high`.
///
/// # Errors
/// With fewer than two times or unsorted ones.
pub fn share_of_gaps(times: &[f64], low: f64, high: f64) -> Result<f64, InputError> {
    at_least("times", times, 2)?;
    finite("times", times)?;
    ascending("times", times)?;
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let within = gaps.filter(|&gap| low < gap && gap < high).count();
    Ok(within as f64 / (times.len() - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_at_the_limits_are_outside() {
        let times = [0.0, 1.0, 2.0, 4.0, 4.0];

        assert_eq!(share_of_gaps(&times, 0.0, 2.0), Ok(0.5));
        assert!(share_of_gaps(&[1.0], 0.0, 2.0).is_err());
        assert!(share_of_gaps(&[1.0, 0.0], 0.0, 2.0).is_err());
    }
}
