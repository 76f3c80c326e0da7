//! Number of events that are needed to find a change between two sets of recordings.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::InputError;
use crate::counts::expected_events_for;
use crate::input::positive;

/// Correction for two facts that Student's quantiles ignore: the number of independent
/// events is itself estimated from few, and counts are integers. By simulation
/// (`tests/it/power.rs`).
const FEW_EVENTS_FACTOR: f64 = 1.2;

/// Returns the expected clusters in the first set of recordings at which
/// [`super::compare_recordings`] finds a rate that is `times` as high in a fraction
/// `power` of comparisons. The second set has the same size, and a fraction `wrong` of
/// the comparisons may be wrong. `recordings` is the number of recordings in both sets.
///
/// The result is the number for two sums of independent events, times the square of the
/// ratio of Student's to normal quantiles of the level and of the power.
///
/// # Errors
/// If a number is out of its range, or if there are fewer than three recordings.
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
    // Above 0, so the distribution exists.
    let further = StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |student| {
        (student.inverse_cdf(share) + student.inverse_cdf(power)) / normal
    });
    Ok(FEW_EVENTS_FACTOR * further * further * of_sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles by `SciPy`: with 6 degrees of freedom 2.446912 and .905703 for 5 % and
    /// 80 %; with 14 degrees 2.144787 and .868055.
    #[test]
    fn fewer_recordings_need_more_events() {
        let events = expected_events_for(2.0, 0.8, 0.05, 1.0).unwrap();
        let normal = 1.959_964 + 0.841_621;
        for (recordings, quantiles) in [(8, 2.446_912 + 0.905_703), (16, 2.144_787 + 0.868_055)] {
            let clusters = expected_clusters_for(2.0, 0.8, 0.05, recordings).unwrap();
            let price: f64 = quantiles / normal;

            assert!(
                (clusters / (1.2 * events * price * price) - 1.0).abs() < 1e-4,
                "{clusters}"
            );
        }
        assert!(expected_clusters_for(2.0, 0.8, 0.05, 2).is_err());
    }
}
