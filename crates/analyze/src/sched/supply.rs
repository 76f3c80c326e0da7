//! What measured blackouts leave of the processor, as a function of the window.

use super::{Supply, Task, blackout_envelope, is_schedulable};
use crate::InputError;
use crate::exceedance::Blackout;
use crate::input::positive;

/// Ratio of neighbouring windows: the envelope is at most this much pessimistic
/// in the window.
const STEP: f64 = 1.02;
/// How exactly the breakdown is found, as a share of it.
const CLOSE: f64 = 1e-4;

/// The largest time that blackouts took in any window: a step function above
/// the true one.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Ascending windows, and the longest blackout time in each.
    steps: Vec<(f64, f64)>,
}

impl Envelope {
    /// The envelope over windows from `shortest` to `longest`: of the worst of
    /// `cpus`, each with its own blackouts.
    ///
    /// # Errors
    /// When blackouts overlap or a window is not positive.
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
            let found = blackout_envelope(blackouts, &windows)?;
            for (worst, found) in worst.iter_mut().zip(found) {
                *worst = worst.max(found);
            }
        }
        let steps = windows.into_iter().zip(worst).collect();
        Ok(Self { steps })
    }

    /// The envelope of these windows, ascending, and the blackout time in each.
    pub(super) const fn from_steps(steps: Vec<(f64, f64)>) -> Self {
        Self { steps }
    }

    /// The longest blackout time in a window; infinite beyond the longest.
    pub fn at(&self, window: f64) -> f64 {
        let next = self.steps.partition_point(|(length, _)| *length < window);
        self.steps
            .get(next)
            .map_or(f64::INFINITY, |(_, time)| *time)
    }
}

/// The utilisation at which `tasks`, all costs scaled alike, just stay
/// schedulable: the breakdown utilisation (Lehoczky, Sha & Ding 1989). Zero
/// when blackouts alone make a task miss.
///
/// # Errors
/// When a task is not valid.
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
        let one = |&(start, end)| Blackout { start, end };
        stalls.iter().map(one).collect()
    }

    #[test]
    fn the_envelope_is_that_of_the_worst_cpu_and_never_below_the_truth() {
        let cpus = [
            blackouts(&[(0.0, 1.0), (10.0, 13.0)]),
            blackouts(&[(0.0, 2.0), (4.0, 6.0)]),
        ];
        let envelope = Envelope::new(&cpus, (0.5, 100.0)).unwrap();

        for (window, truth) in [(0.5, 0.5), (2.9, 2.9), (6.0, 4.0), (50.0, 4.0)] {
            let found = envelope.at(window);
            assert!(
                (truth..=truth * 1.03).contains(&found),
                "{found} for {window}"
            );
        }
        assert_eq!(envelope.at(1e9), f64::INFINITY);
    }

    #[test]
    fn harmonic_tasks_break_down_at_a_full_processor_and_blackouts_take_from_it() {
        let tasks = [Task::new(1.0, 4.0), Task::new(1.0, 8.0)];
        let envelope = Envelope::new(&[blackouts(&[(0.0, 1.0)])], (0.01, 1_000.0)).unwrap();
        let at = |window| envelope.at(window);
        let supply = Supply {
            envelope: Some(&at),
            ..Supply::default()
        };

        let free = breakdown_utilization(&tasks, Supply::default()).unwrap();
        let hindered = breakdown_utilization(&tasks, supply).unwrap();

        assert!((free - 1.0).abs() < 1e-3, "{free}");
        assert!((0.8..0.9).contains(&hindered), "{hindered}");
    }

    #[test]
    fn a_blackout_longer_than_a_deadline_leaves_nothing() {
        let envelope = Envelope::new(&[blackouts(&[(0.0, 5.0)])], (0.01, 1_000.0)).unwrap();
        let at = |window| envelope.at(window);
        let supply = Supply {
            envelope: Some(&at),
            ..Supply::default()
        };

        assert_eq!(
            breakdown_utilization(&[Task::new(1.0, 4.0)], supply),
            Ok(0.0)
        );
    }
}
