//! Gaps between events (docs/method.md 11).

use crate::InputError;
use crate::input::{ascending, at_least, finite, positive};
use crate::sample::{mean, variance};

fn gaps(times: &[f64], needed: usize) -> Result<Vec<f64>, InputError> {
    at_least("times", times, needed)?;
    finite("times", times)?;
    ascending("times", times)?;
    Ok(times.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

/// The exact p-value of two gaps as equal as those between three event times
/// in `exposure`: 1 - (1 - d)^3, d their difference over the exposure.
///
/// # Errors
/// When times do not ascend, or differ by more than the exposure.
pub fn equal_gaps_p(times: [f64; 3], exposure: f64) -> Result<f64, InputError> {
    let gaps = gaps(&times, 3)?;
    positive("exposure", exposure)?;
    positive(
        "exposure less the span of the times",
        exposure - (times[2] - times[0]),
    )?;
    let difference = (gaps[1] - gaps[0]).abs() / exposure;
    Ok(1.0 - (1.0 - difference).powi(3))
}

/// The coefficient of variation of the gaps. Below 0.1 the events come from a
/// timer that is armed anew after each: periodic, but not on a fixed grid.
///
/// # Errors
/// With fewer than three times, unsorted ones, or all equal.
pub fn gap_variation(times: &[f64]) -> Result<f64, InputError> {
    let gaps = gaps(times, 3)?;
    let mean = positive("mean gap", mean(&gaps))?;
    Ok(variance(&gaps).sqrt() / mean)
}

/// The share of gaps between ascending `times` that lie above `low` and below
/// `high`.
///
/// # Errors
/// With fewer than two times or unsorted ones.
pub fn share_of_gaps(times: &[f64], low: f64, high: f64) -> Result<f64, InputError> {
    let gaps = gaps(times, 2)?;
    let within = gaps.iter().filter(|&&gap| low < gap && gap < high).count();
    Ok(within as f64 / gaps.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_armed_anew_after_work_has_even_gaps() {
        let drifting = [0.0, 5.01, 10.05, 15.04, 20.10];

        assert!(gap_variation(&drifting).unwrap() < 0.1);
        assert!(gap_variation(&[0.0, 1.0, 9.0, 10.0, 30.0]).unwrap() > 0.5);
    }

    #[test]
    fn the_less_equal_the_gaps_the_likelier_by_chance() {
        let p = |last| equal_gaps_p([5.0, 10.0, last], 30.0).unwrap();

        assert!(p(15.001) < p(15.1) && p(15.1) < p(20.0));
        assert!(equal_gaps_p([5.0, 10.0, 40.0], 30.0).is_err());
    }
}
