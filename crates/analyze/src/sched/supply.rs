//! Processor time that measured blackouts leave, as a function of the window.

use super::{Supply, Task, blackout_envelope, is_schedulable};
use crate::InputError;
use crate::exceedance::Blackout;
use crate::input::positive;

/// Ratio of neighbouring windows. The envelope overestimates a window by at most this factor.
const STEP: f64 = 1.02;
/// Relative precision of the breakdown utilisation.
const CLOSE: f64 = 1e-4;

/// Largest time that blackouts took in any window: a step function above the true one.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Ascending windows, and the longest blackout time in each.
    steps: Vec<(f64, f64)>,
}

impl Envelope {
    /// Computes the envelope over windows from `shortest` to `longest` for the worst of
    /// `cpus`, each with its own blackouts.
    ///
    /// # Errors
    /// If blackouts overlap or a window is not positive.
    pub fn new(
        cpus: &[Vec<Blackout>],
        (shortest, longest): (f64, f64),
    ) -> Result<Self, InputError> {
        positive("shortest window", shortest)?;
        positive("longest window", longest)?;
        let mut windows = vec![shortest];
        while let Some(&last) = windows.last()
            && last < longest
        {
            windows.push(last * STEP);
        }
        let mut worst = vec![0.0_f64; windows.len()];
        for blackouts in cpus {
            let longest_times = blackout_envelope(blackouts, &windows)?;
            for (worst, longest) in worst.iter_mut().zip(longest_times) {
                *worst = worst.max(longest);
            }
        }
        let steps = windows.into_iter().zip(worst).collect();
        Ok(Self { steps })
    }

    /// Creates an envelope from ascending windows and the blackout time in each.
    pub(super) const fn from_steps(steps: Vec<(f64, f64)>) -> Self {
        Self { steps }
    }

    /// Returns the longest blackout time in a window; infinite beyond the longest.
    pub fn at(&self, window: f64) -> f64 {
        let next = self.steps.partition_point(|(length, _)| *length < window);
        self.steps
            .get(next)
            .map_or(f64::INFINITY, |(_, time)| *time)
    }
}

/// Returns the utilisation where `tasks`, with costs scaled alike, just stay
/// schedulable: the breakdown utilisation (Lehoczky, Sha & Ding 1989). Zero if
/// blackouts alone make a task miss.
///
/// # Errors
/// If a task is not valid.
pub fn breakdown_utilization(tasks: &[Task], supply: Supply<'_>) -> Result<f64, InputError> {
    let now = super::utilization(tasks);
    positive("utilisation", now)?;
    let scaled = |factor: f64| -> Result<bool, InputError> {
        let tasks: Vec<Task> = tasks
            .iter()
            .map(|task| Task {
                cost: task.cost * factor,
                ..*task
            })
            .collect();
        is_schedulable(&tasks, supply)
    };
    let (mut low, mut high) = (0.0, 1.0 / now);
    if scaled(high)? {
        return Ok(1.0);
    }
    while high - low > CLOSE * high && high > CLOSE / now {
        let middle = (low + high) / 2.0;
        if scaled(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low * now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blackouts(stalls: &[(f64, f64)]) -> Vec<Blackout> {
        let blackout = |&(start, end)| Blackout::new(start, end);
        stalls.iter().map(blackout).collect()
    }

    #[test]
    fn envelope_is_of_the_worst_cpu_and_never_below_the_truth() {
        let cpus = [
            blackouts(&[(0.0, 1.0), (10.0, 13.0)]),
            blackouts(&[(0.0, 2.0), (4.0, 6.0)]),
        ];
        let envelope = Envelope::new(&cpus, (0.5, 100.0)).unwrap();

        for (window, truth) in [(0.5, 0.5), (2.9, 2.9), (6.0, 4.0), (50.0, 4.0)] {
            let time = envelope.at(window);
            assert!(
                (truth..=truth * 1.03).contains(&time),
                "{time} for {window}"
            );
        }
        assert_eq!(envelope.at(1e9), f64::INFINITY);
    }

    #[test]
    fn harmonic_tasks_fill_the_processor_minus_the_blackouts() {
        let tasks = [Task::new(1.0, 4.0), Task::new(1.0, 8.0)];
        let envelope = Envelope::new(&[blackouts(&[(0.0, 1.0)])], (0.01, 1_000.0)).unwrap();
        let blackout_time = |window| envelope.at(window);
        let supply = Supply {
            envelope: Some(&blackout_time),
            ..Supply::default()
        };

        let free = breakdown_utilization(&tasks, Supply::default()).unwrap();
        let hindered = breakdown_utilization(&tasks, supply).unwrap();

        assert!((free - 1.0).abs() < 1e-3, "{free}");
        assert!((0.8..0.9).contains(&hindered), "{hindered}");
    }

    #[test]
    fn blackout_longer_than_a_deadline_leaves_zero() {
        let envelope = Envelope::new(&[blackouts(&[(0.0, 5.0)])], (0.01, 1_000.0)).unwrap();
        let blackout_time = |window| envelope.at(window);
        let supply = Supply {
            envelope: Some(&blackout_time),
            ..Supply::default()
        };

        assert_eq!(
            breakdown_utilization(&[Task::new(1.0, 4.0)], supply),
            Ok(0.0)
        );
    }
}
