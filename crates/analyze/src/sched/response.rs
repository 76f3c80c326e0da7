//! Response-time analysis of fixed priorities (Joseph & Pandya 1986; Audsley et al.
//! 1993; Tindell, Burns & Wellings 1994).

use super::task::{check_all, joined};
use super::{ROUNDING, Task, utilization};
use crate::InputError;
use crate::input::{not_negative, positive};

/// A response counts as unbounded after this number of jobs or steps.
const MAX_STEPS: usize = 1_000_000;

/// Losses of processor time in addition to the tasks.
#[derive(Clone, Copy, Default)]
pub struct Supply<'a> {
    /// Time added to the cost of every job, for its two context switches.
    pub overhead: f64,
    /// Longest time that blackouts can take in a window of the given length; must not
    /// fall as the window grows.
    pub envelope: Option<&'a dyn Fn(f64) -> f64>,
}

impl std::fmt::Debug for Supply<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supply")
            .field("overhead", &self.overhead)
            .field("envelope", &self.envelope.is_some())
            .finish()
    }
}

/// Worst response of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Response {
    /// Worst-case time from a job's arrival to its end; infinite if it is unbounded, or if the
    /// analysis would need more than a million steps.
    pub time: f64,
    /// Job of the busy period with the worst response, from 0.
    pub job: u64,
}

/// Returns the worst response of task `index` of `tasks`, highest priority first, for
/// any deadline:
///
/// w(q) = B + (q + 1) C + sum over higher priorities of ceil((w + J) / T) C and the
/// envelope of w; the response is the largest w(q) - q T + J over the jobs q of the
/// busy period.
///
/// # Errors
/// If a task is not valid, or if `index` is out of range.
pub fn response_time(
    tasks: &[Task],
    index: usize,
    supply: Supply<'_>,
) -> Result<Response, InputError> {
    check_all(tasks)?;
    not_negative("overhead", supply.overhead)?;
    positive(
        "tasks from this index",
        tasks[index.min(tasks.len())..].len() as f64,
    )?;
    let task = tasks[index];
    let cost = task.cost + supply.overhead;
    let with_overhead = |task: &Task| Task {
        cost: task.cost + supply.overhead,
        ..*task
    };
    let higher: Vec<Task> = tasks[..index].iter().map(with_overhead).collect();
    let higher = joined(&higher);
    let load = utilization(&tasks[..=index])
        + tasks[..=index]
            .iter()
            .map(|t| supply.overhead / t.period)
            .sum::<f64>();
    if load > 1.0 + 1e-12 {
        return Ok(UNBOUNDED);
    }
    let interference = |window: f64| {
        let tasks: f64 = higher
            .iter()
            .map(|task| ((window + task.jitter) / task.period - 1e-12).ceil() * task.cost)
            .sum();
        tasks + supply.envelope.map_or(0.0, |envelope| envelope(window))
    };
    let mut worst = Response { time: -1.0, job: 0 };
    let mut window = cost + task.blocking;
    let mut steps = 0;
    for job in 0_u64.. {
        let own = task.blocking + (job as f64 + 1.0) * cost;
        window = window.max(own);
        loop {
            let next = own + interference(window);
            if next <= window + 1e-12 * window.max(1.0) {
                break;
            }
            window = next;
            steps += 1;
            if steps > MAX_STEPS || !window.is_finite() {
                return Ok(UNBOUNDED);
            }
        }
        let time = window - job as f64 * task.period + task.jitter;
        if time > worst.time + 1e-12 {
            worst = Response { time, job };
        }
        if window + task.jitter <= (job as f64 + 1.0) * task.period + 1e-12 {
            break;
        }
        steps += 1;
        if steps > MAX_STEPS {
            return Ok(UNBOUNDED);
        }
    }
    Ok(worst)
}

const UNBOUNDED: Response = Response {
    time: f64::INFINITY,
    job: 0,
};

/// Returns the worst response of every task, in the order of `tasks`.
///
/// # Errors
/// When a task is not valid.
pub fn response_times(tasks: &[Task], supply: Supply<'_>) -> Result<Vec<Response>, InputError> {
    (0..tasks.len())
        .map(|index| response_time(tasks, index, supply))
        .collect()
}

/// Returns whether every task meets its deadline.
///
/// # Errors
/// When a task is not valid.
pub fn is_schedulable(tasks: &[Task], supply: Supply<'_>) -> Result<bool, InputError> {
    for (index, task) in tasks.iter().enumerate() {
        // The last of equal tasks has the longest response.
        if tasks.get(index + 1) == Some(task) {
            continue;
        }
        if response_time(tasks, index, supply)?.time > task.deadline + ROUNDING {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::{hyperbolic_product, utilization_bound};
    use proptest::prelude::{Strategy, prop_assert, proptest};

    fn tasks() -> impl Strategy<Value = Vec<Task>> {
        let task =
            (1..6_u32, 5..40_u32, 0..4_u32, 0..4_u32).prop_map(|(cost, period, j, b)| Task {
                jitter: f64::from(j),
                blocking: f64::from(b),
                ..Task::new(f64::from(cost), f64::from(period))
            });
        proptest::collection::vec(task, 1..5)
    }

    proptest! {
        #[test]
        fn more_work_never_shortens_a_response(tasks in tasks(), index in 0..5_usize, more in 0.1..2.0_f64) {
            let before = response_times(&tasks, Supply::default()).unwrap();
            let mut harder = tasks.clone();
            let changed = index % tasks.len();
            harder[changed].cost += more;
            let after = response_times(&harder, Supply::default()).unwrap();
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(before.time <= after.time + 1e-9);
            }
        }

        #[test]
        fn analysis_accepts_all_that_a_bound_accepts(tasks in tasks()) {
            let mut plain: Vec<Task> = tasks.iter().map(|t| Task::new(t.cost, t.period)).collect();
            plain.sort_by(|a, b| a.period.total_cmp(&b.period));
            let schedulable = is_schedulable(&plain, Supply::default()).unwrap();
            let is_hyperbolic = hyperbolic_product(&plain) <= 2.0 + 1e-12;
            if utilization(&plain) <= utilization_bound(plain.len()) {
                prop_assert!(is_hyperbolic);
            }
            if is_hyperbolic {
                prop_assert!(schedulable);
            }
        }

        #[test]
        fn empty_envelope_changes_nothing(tasks in tasks()) {
            let nothing = |_: f64| 0.0;
            let supply = Supply { envelope: Some(&nothing), ..Supply::default() };
            prop_assert!(
                response_times(&tasks, supply) == response_times(&tasks, Supply::default())
            );
        }
    }

    #[test]
    fn overloaded_task_is_unbounded_but_not_those_above_it() {
        let tasks = [Task::new(3.0, 5.0), Task::new(3.0, 6.0)];

        let responses = response_times(&tasks, Supply::default()).unwrap();

        assert_eq!(responses[0].time, 3.0);
        assert_eq!(responses[1].time, f64::INFINITY);
    }

    #[test]
    fn blackout_delays_a_job_by_its_length() {
        let once = |_: f64| 2.0;
        let supply = Supply {
            envelope: Some(&once),
            ..Supply::default()
        };

        let response = response_time(&[Task::new(1.0, 10.0)], 0, supply).unwrap();

        assert_eq!(response.time, 3.0);
    }

    #[test]
    fn missing_or_invalid_task_is_refused() {
        let tasks = [Task::new(1.0, 0.0)];

        assert!(response_time(&tasks, 0, Supply::default()).is_err());
        assert!(response_time(&[Task::new(1.0, 2.0)], 1, Supply::default()).is_err());
        assert!(response_time(&[], 0, Supply::default()).is_err());
    }
}
