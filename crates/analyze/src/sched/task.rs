//! Periodic task.

use crate::InputError;
use crate::input::{not_negative, positive};

/// Periodic or sporadic task; all times in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// Worst-case execution time C of one job.
    pub cost: f64,
    /// Period T, or minimum time between two jobs.
    pub period: f64,
    /// Deadline D of a job after its arrival; may exceed the period.
    pub deadline: f64,
    /// Release jitter J: the longest time from arrival to release.
    pub jitter: f64,
    /// Blocking B: the longest time that lower priorities block the task, once per busy period.
    pub blocking: f64,
}

impl Task {
    /// Creates a task with its period as deadline, no jitter and no blocking.
    pub const fn new(cost: f64, period: f64) -> Self {
        Self {
            cost,
            period,
            deadline: period,
            jitter: 0.0,
            blocking: 0.0,
        }
    }

    /// Returns the utilisation of the task.
    pub fn utilization(self) -> f64 {
        self.cost / self.period
    }

    /// Checks that every time is in its range.
    ///
    /// # Errors
    /// If one is not.
    pub fn check(self) -> Result<(), InputError> {
        positive("cost of a task", self.cost)?;
        positive("period of a task", self.period)?;
        positive("deadline of a task", self.deadline)?;
        not_negative("jitter of a task", self.jitter)?;
        not_negative("blocking of a task", self.blocking)?;
        Ok(())
    }
}

pub(super) fn check_all(tasks: &[Task]) -> Result<(), InputError> {
    crate::input::at_least("tasks", tasks, 1)?;
    tasks.iter().try_for_each(|task| task.check())
}

/// Joins neighbours that differ in nothing but their cost and blocking: equal numbers of jobs of
/// each arrive in any window, so that they delay others like one task with the sum of their costs.
/// A thousand instances of a task are one.
pub(super) fn joined(tasks: &[Task]) -> Vec<Task> {
    let mut joined: Vec<Task> = Vec::new();
    for task in tasks {
        let arrives_alike = |last: &&mut Task| {
            (last.period, last.deadline, last.jitter) == (task.period, task.deadline, task.jitter)
        };
        match joined.last_mut().filter(arrives_alike) {
            Some(last) => last.cost += task.cost,
            None => joined.push(*task),
        }
    }
    joined
}
