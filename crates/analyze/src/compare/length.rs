//! How many events it takes to find a change between two sets of recordings.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::InputError;
use crate::counts::expected_events_for;
use crate::input::positive;

/// What Student's quantiles leave out: how many events are independent is itself
/// known from few, and counts are whole. By simulation (`tests/it/power.rs`).
const PRICE: f64 = 1.2;

/// The expected clusters in the first set of recordings, of as many as the second
/// has, at which [`super::compare_recordings`] finds a rate that is `times` as high
/// in the share `power` of comparisons, where `wrong` of them may be wrong.
/// `recordings` is how many there are of both together.
///
/// As many as two sums of independent events take, times the square of how much
/// further Student's quantiles of the level and of the power lie apart than the normal
/// ones.
///
/// # Errors
/// When a number is out of its range, or there are fewer than three recordings.
pub fn expected_clusters_for(
    times: f64,
    power: f64,
    wrong: f64,
    recordings: usize,
) -> Result<f64, InputError> {
    let freedom = positive("degrees of freedom", recordings as f64 - 2.0)?;
    let of_sums = expected_events_for(times, power, wrong, 1.0)?;
    let share = 1.0 - wrong / 2.0;
    let normal = Normal::standard();
    let normal = normal.inverse_cdf(share) + normal.inverse_cdf(power);
    // Above 0, so there is such a distribution.
    let further = StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |student| {
        (student.inverse_cdf(share) + student.inverse_cdf(power)) / normal
    });
    Ok(PRICE * further * further * of_sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the quantiles of `SciPy`: with 6 degrees of freedom 2.446912 and .905703 for
    /// 5 % and 80 %, with 14 they are 2.144787 and .868055.
    #[test]
    fn the_fewer_the_recordings_the_more_events_it_takes() {
        let events = expected_events_for(2.0, 0.8, 0.05, 1.0).unwrap();
        let normal = 1.959_964 + 0.841_621;
        for (recordings, quantiles) in [(8, 2.446_912 + 0.905_703), (16, 2.144_787 + 0.868_055)] {
            let found = expected_clusters_for(2.0, 0.8, 0.05, recordings).unwrap();
            let price: f64 = quantiles / normal;

            assert!(
                (found / (1.2 * events * price * price) - 1.0).abs() < 1e-4,
                "{found}"
            );
        }
        assert!(expected_clusters_for(2.0, 0.8, 0.05, 2).is_err());
    }
}
