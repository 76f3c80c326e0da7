//! Processor demand under earliest deadline first (Baruah, Rosier & Howell 1990).

use super::task::{check_all, joined};
use super::{ROUNDING, Task, utilization};
use crate::InputError;
use crate::input::not_negative;
use crate::sample::index;

/// Maximum number of deadlines to check.
const MAX_POINTS: f64 = 2e6;

/// Demand up to one absolute deadline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DemandPoint {
    /// Deadline, from the start of a busy period.
    pub deadline: f64,
    /// Work that must be done by then.
    pub demand: f64,
}

/// Result of the processor-demand test.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Total utilisation of the processor.
    pub utilization: f64,
    /// Last deadline that had to be checked; `None` if the processor is overloaded.
    pub horizon: Option<f64>,
    /// Demand at every deadline up to `horizon`.
    pub points: Vec<DemandPoint>,
    /// First missed deadline.
    pub violation: Option<DemandPoint>,
}

impl Demand {
    /// Returns whether every deadline is met.
    pub const fn is_schedulable(&self) -> bool {
        self.horizon.is_some() && self.violation.is_none()
    }
}

/// Returns the work of jobs that arrive and are due within any window of `length`.
fn demand_of(tasks: &[Task], length: f64) -> f64 {
    let jobs = |task: &Task| {
        let window = length + task.jitter - task.deadline;
        ((window / task.period).floor() + 1.0).max(0.0)
    };
    tasks.iter().map(|task| jobs(task) * task.cost).sum()
}

/// Tests `tasks` under earliest deadline first, with `blocking` once per busy period.
/// The blocking of the tasks is not used.
///
/// # Errors
/// If a task is not valid, or more than two million deadlines would have to be checked:
/// with a utilisation this close to 1 the test is not practical.
pub fn edf_demand(tasks: &[Task], blocking: f64) -> Result<Demand, InputError> {
    check_all(tasks)?;
    not_negative("blocking", blocking)?;
    let tasks = joined(tasks);
    let tasks = tasks.as_slice();
    let utilization = utilization(tasks);
    if utilization > 1.0 + 1e-12 {
        return Ok(Demand {
            utilization,
            horizon: None,
            points: Vec::new(),
            violation: None,
        });
    }
    let horizon = horizon(tasks, utilization, blocking);
    let expected: f64 = tasks.iter().map(|task| horizon / task.period + 1.0).sum();
    if expected.is_nan() || expected > MAX_POINTS {
        return Err(InputError::OutOfRange {
            name: "utilisation",
            value: utilization,
            range: "further below 1, or the periods multiples of each other",
        });
    }
    let points: Vec<DemandPoint> = deadlines(tasks, horizon)
        .into_iter()
        .map(|deadline| DemandPoint {
            deadline,
            demand: demand_of(tasks, deadline),
        })
        .collect();
    let violation = points
        .iter()
        .find(|point| point.demand + blocking > point.deadline + ROUNDING)
        .copied();
    Ok(Demand {
        utilization,
        horizon: Some(horizon),
        points,
        violation,
    })
}

/// Returns the last deadline that can be the first missed one.
fn horizon(tasks: &[Task], utilization: f64, blocking: f64) -> f64 {
    if utilization > 1.0 - 1e-9 {
        return hyperperiod(tasks);
    }
    let longest = tasks.iter().map(|task| task.deadline).fold(0.0, f64::max);
    let early: f64 = tasks
        .iter()
        .map(|task| (task.period - task.deadline + task.jitter) * task.cost / task.period)
        .sum();
    longest.max((early + blocking) / (1.0 - utilization))
}

/// Returns the least common multiple of the periods; infinite if a period is not an
/// integer number of ns.
fn hyperperiod(tasks: &[Task]) -> f64 {
    fn divisor(a: f64, b: f64) -> f64 {
        if b == 0.0 { a } else { divisor(b, a % b) }
    }
    tasks.iter().fold(1.0, |multiple, task| {
        if task.period.fract() != 0.0 || multiple > 1e15 {
            return f64::INFINITY;
        }
        multiple / divisor(multiple, task.period) * task.period
    })
}

/// Returns every absolute deadline up to `horizon`, ascending, each once.
fn deadlines(tasks: &[Task], horizon: f64) -> Vec<f64> {
    let mut deadlines: Vec<f64> = Vec::new();
    for task in tasks {
        let last = index(((horizon + task.jitter - task.deadline) / task.period).max(0.0)) + 1;
        deadlines.extend(
            (0..=last)
                .map(|job| job as f64 * task.period + task.deadline - task.jitter)
                .filter(|&deadline| 0.0 < deadline && deadline <= horizon),
        );
    }
    deadlines.sort_by(f64::total_cmp);
    deadlines.dedup();
    deadlines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_processor_with_integer_periods_is_decided() {
        let full = [Task::new(2.0, 4.0), Task::new(3.0, 6.0)];

        assert!(edf_demand(&full, 0.0).unwrap().is_schedulable());
        assert!(!edf_demand(&full, 0.5).unwrap().is_schedulable());
    }

    #[test]
    fn overload_is_not_schedulable() {
        let over = [Task::new(3.0, 4.0), Task::new(3.0, 6.0)];

        assert!(!edf_demand(&over, 0.0).unwrap().is_schedulable());
    }

    #[test]
    fn full_processor_with_odd_periods_is_refused() {
        let odd = [Task::new(0.5, 1.0), Task::new(0.7, 1.4)];

        assert!(edf_demand(&odd, 0.0).is_err());
    }
}
