//! How many events it takes to find a change between two sets of recordings.

use crate::InputError;
use crate::counts::expected_events_for;

/// It takes so many times the events of two sums of independent ones, since
/// recordings may differ by themselves and events may come in bursts: of such as
/// do neither, by simulation (`tests/power.rs`).
const PRICE: f64 = 1.4;

/// The expected clusters in the first set of recordings, of as many as the second
/// has, at which [`super::compare_recordings`] finds a rate that is `times` as high
/// in the share `power` of comparisons, where `wrong` of them may be wrong.
///
/// # Errors
/// When a number is out of its range.
pub fn expected_clusters_for(times: f64, power: f64, wrong: f64) -> Result<f64, InputError> {
    expected_events_for(times, power, wrong, 1.0).map(|events| PRICE * events)
}
