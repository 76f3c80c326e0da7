//! Even change of the rates of both sides over the recordings (docs/method.md 10.1).
//!
//! A machine may get busier while recordings are made. The order A B B A removes the trend
//! from the difference of the sides, but not from the variation within a side, which hides
//! the difference. Analysis of covariance with the time of the recording (Cochran 1957)
//! removes it from both.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::order::RecordingOrder;
use crate::sample::mean;

/// Significance level for removing a trend.
const LEVEL: f64 = 0.05;
/// Minimum number of recordings for a trend.
const MIN_RECORDINGS: usize = 6;

/// Places of the recordings of both sides in their order, around 0.
#[derive(Clone, Debug)]
pub(super) struct Times([Vec<f64>; 2]);

/// Significant trend.
#[derive(Clone, Debug)]
pub(super) struct Trend {
    /// Rate at each recording of both sides, relative to its mean.
    pub(super) factors: [Vec<f64>; 2],
    /// Rate at the last recording divided by the rate at the first.
    pub(super) growth: f64,
    /// Squared difference of the sides' mean times, divided by the sum of the squared
    /// times around these means.
    pub(super) imbalance: f64,
}

impl Times {
    /// Returns the times; `None` if the order does not have these `counts` of recordings.
    pub(super) fn new(order: &RecordingOrder, counts: [usize; 2]) -> Option<Self> {
        let number = order.sides().len();
        let mut times = [Vec::new(), Vec::new()];
        for (place, &side) in order.sides().iter().enumerate() {
            times[side].push(place as f64 - (number as f64 - 1.0) / 2.0);
        }
        let is_complete = [0, 1].map(|side| times[side].len()) == counts;
        let is_enough = number >= MIN_RECORDINGS && counts.iter().all(|&count| count >= 2);
        (is_complete && is_enough).then_some(Self(times))
    }

    /// Returns the common trend of the logarithms of the rates if it is significant.
    pub(super) fn trend(&self, logs: &[Vec<f64>; 2]) -> Option<Trend> {
        let (mut squares, mut products, mut total) = (0.0, 0.0, 0.0);
        for (times, logs) in self.0.iter().zip(logs) {
            let (time, log) = (mean(times), mean(logs));
            for (position, value) in times.iter().zip(logs) {
                squares += (position - time).powi(2);
                products += (position - time) * (value - log);
                total += (value - log).powi(2);
            }
        }
        let number = self.0[0].len() + self.0[1].len();
        let slope = products / squares;
        let freedom = number as f64 - 3.0;
        let rest = ((total - slope * products) / freedom).max(0.0);
        let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
        let deviate = slope.abs() * (squares / rest).sqrt();
        // Without any variation the deviate is not a number.
        if deviate.is_nan() || 2.0 * student.sf(deviate) > LEVEL {
            return None;
        }
        let values = self.0.iter().flatten();
        let scale = values.map(|time| (slope * time).exp()).sum::<f64>() / number as f64;
        let factor = |time: &f64| (slope * time).exp() / scale;
        Some(Trend {
            factors: [0, 1].map(|side| self.0[side].iter().map(factor).collect()),
            growth: (slope * (number as f64 - 1.0)).exp(),
            imbalance: (mean(&self.0[1]) - mean(&self.0[0])).powi(2) / squares,
        })
    }

    /// Removes the trend from `logs` that recordings at the same position of a repeated
    /// order have: a job at one position does not affect it.
    pub(super) fn level_within(&self, positions: &[(usize, Vec<usize>)], logs: &mut [Vec<f64>; 2]) {
        let (mut squares, mut products) = (0.0, 0.0);
        for (side, recordings) in positions {
            let with_value = recordings
                .iter()
                .filter_map(|&index| Some((*self.0[*side].get(index)?, *logs[*side].get(index)?)));
            let (times, values): (Vec<f64>, Vec<f64>) = with_value.unzip();
            let (time, value) = (mean(&times), mean(&values));
            for (position, log) in times.iter().zip(&values) {
                squares += (position - time).powi(2);
                products += (position - time) * (log - value);
            }
        }
        if squares <= 0.0 {
            return;
        }
        for (times, logs) in self.0.iter().zip(logs) {
            for (time, log) in times.iter().zip(logs) {
                *log -= products / squares * time;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(letters: &str) -> RecordingOrder {
        RecordingOrder::new(
            letters
                .bytes()
                .map(|letter| usize::from(letter == b'B'))
                .collect(),
        )
    }

    #[test]
    fn even_growth_is_a_trend_and_a_difference_of_sides_is_none() {
        let times = Times::new(&order("ABBAABBA"), [4, 4]).unwrap();
        let log = |place: f64, noise: f64| 0.3 * place + noise;
        let grown = [
            vec![log(0., 0.02), log(3., -0.02), log(4., 0.01), log(7., 0.0)],
            vec![log(1., 0.7), log(2., 0.72), log(5., 0.69), log(6., 0.7)],
        ];

        let trend = times.trend(&grown).unwrap();

        assert!(
            (trend.growth / (0.3_f64 * 7.0).exp() - 1.0).abs() < 0.05,
            "{trend:?}"
        );
        assert!(trend.imbalance < 1e-12);
        let level = [vec![0.0, 0.1, -0.1, 0.0], vec![0.7, 0.8, 0.6, 0.7]];
        assert!(times.trend(&level).is_none());
    }

    #[test]
    fn order_must_match_the_recordings() {
        assert!(Times::new(&order("ABBAABBA"), [3, 4]).is_none());
        assert!(Times::new(&order("ABBA"), [2, 2]).is_none());
        assert!(Times::new(&order(""), [4, 4]).is_none());
    }

    #[test]
    fn job_at_one_position_does_not_affect_the_trend_within_positions() {
        let times = Times::new(&order("ABBAABBA"), [4, 4]).unwrap();
        let positions = order("ABBAABBA").positions();
        // Recordings 1 and 5 have a job.
        let mut logs = [
            vec![0.0, 0.6, 0.8, 1.4],
            vec![0.2 + 2.0, 0.4, 1.0 + 2.0, 1.2],
        ];

        times.level_within(&positions, &mut logs);

        assert!((logs[0][0] - logs[0][3]).abs() < 1e-12, "{logs:?}");
        assert!((logs[1][0] - logs[1][1] - 2.0).abs() < 1e-12, "{logs:?}");
    }
}
