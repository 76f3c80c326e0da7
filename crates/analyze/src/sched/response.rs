//! Response-time analysis of fixed priorities (Joseph & Pandya 1986; Audsley et al.
//! 1993; Tindell, Burns & Wellings 1994).

use super::task::{arrives_alike, check_all};
use super::{ROUNDING, Task};
use crate::InputError;
use crate::input::{not_negative, positive};

/// Number of jobs or steps after which a response counts as unbounded.
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
    /// Time from a job's arrival to its end in the worst case; infinite if the task is
    /// not bounded, or not within a million steps of the analysis.
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
/// If a task is not valid or there is none at `index`.
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
    Ok(Analysis::new(&tasks[..=index], supply).response(index))
}

/// Task set in the form of the analysis.
struct Analysis<'a> {
    tasks: &'a [Task],
    supply: Supply<'a>,
    interference: Interference,
    /// Load of the tasks up to each, 1 for a whole processor.
    loads: Vec<f64>,
}

impl<'a> Analysis<'a> {
    /// `tasks` and `supply` are valid.
    fn new(tasks: &'a [Task], supply: Supply<'a>) -> Self {
        let (mut work, mut overhead) = (0.0, 0.0);
        let loads = tasks.iter().map(|task| {
            work += task.utilization();
            overhead += supply.overhead / task.period;
            work + overhead
        });
        Self {
            tasks,
            supply,
            loads: loads.collect(),
            interference: Interference::new(tasks, supply.overhead),
        }
    }

    fn cost(&self, index: usize) -> f64 {
        self.tasks[index].cost + self.supply.overhead
    }

    /// Returns the time that higher priorities and blackouts take in a window.
    fn taken(&self, index: usize, window: f64) -> f64 {
        let envelope = self.supply.envelope;
        self.interference.before(index, window) + envelope.map_or(0.0, |envelope| envelope(window))
    }

    fn response(&self, index: usize) -> Response {
        if self.loads[index] > MAX_LOAD {
            return UNBOUNDED;
        }
        let (task, cost) = (self.tasks[index], self.cost(index));
        let mut worst = Response { time: -1.0, job: 0 };
        let mut window = cost + task.blocking;
        let mut steps = 0;
        for job in 0_u64.. {
            let own = task.blocking + (job as f64 + 1.0) * cost;
            window = window.max(own);
            loop {
                let next = own + self.taken(index, window);
                if next <= window + 1e-12 * window.max(1.0) {
                    break;
                }
                window = next;
                steps += 1;
                if steps > MAX_STEPS || !window.is_finite() {
                    return UNBOUNDED;
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
                return UNBOUNDED;
            }
        }
        worst
    }

    /// Returns whether task `index` meets its deadline.
    fn meets_deadline(&self, index: usize) -> bool {
        let is_in_time = || self.response(index).time <= self.tasks[index].deadline + ROUNDING;
        self.ends_in_one_period(index) || is_in_time()
    }

    /// Returns whether the first job surely ends by its deadline and before the second
    /// arrives: a window of that length has room for all its work, so the iteration from
    /// below ends within it. `false` decides nothing.
    fn ends_in_one_period(&self, index: usize) -> bool {
        let task = self.tasks[index];
        let limit = task.deadline.min(task.period) - task.jitter;
        // Sums are inexact.
        let window = limit * (1.0 - ROUNDING);
        let own = task.blocking + self.cost(index);
        self.loads[index] <= MAX_LOAD
            && window > own
            && self.interference.arrivals(index, window) < MAX_STEPS as f64 / 2.0
            && own + self.taken(index, window) <= window
    }
}

/// Work of higher priorities. The tasks are joined, and each property is in a list of
/// its own, so that the processor computes several tasks at once.
struct Interference {
    costs: Vec<f64>,
    periods: Vec<f64>,
    jitters: Vec<f64>,
    /// For each task: number of joined tasks before it, and cost of the last of these,
    /// without tasks that are joined to it later.
    before: Vec<(usize, f64)>,
    /// Sum of the rates of the joined tasks up to each.
    rates: Vec<f64>,
    max_jitter: f64,
    min_period: f64,
}

impl Interference {
    fn new(tasks: &[Task], overhead: f64) -> Self {
        let mut work = Self {
            costs: Vec::with_capacity(tasks.len()),
            periods: Vec::with_capacity(tasks.len()),
            jitters: Vec::with_capacity(tasks.len()),
            before: Vec::with_capacity(tasks.len()),
            rates: Vec::with_capacity(tasks.len()),
            max_jitter: 0.0,
            min_period: f64::INFINITY,
        };
        let mut last: Option<Task> = None;
        for task in tasks {
            let sum = work.costs.last().copied().unwrap_or(0.0);
            work.before.push((work.costs.len(), sum));
            let cost = task.cost + overhead;
            match work.costs.last_mut() {
                Some(sum) if last.is_some_and(|last| arrives_alike(&last, task)) => *sum += cost,
                _ => {
                    let rate = work.rates.last().copied().unwrap_or(0.0);
                    work.costs.push(cost);
                    work.periods.push(task.period);
                    work.jitters.push(task.jitter);
                    work.rates.push(rate + task.period.recip());
                }
            }
            last = Some(*task);
            work.max_jitter = work.max_jitter.max(task.jitter);
            work.min_period = work.min_period.min(task.period);
        }
        work
    }

    /// Returns the work that the tasks before `index` can do in a window.
    fn before(&self, index: usize, window: f64) -> f64 {
        let (joined, last_cost) = self.before[index];
        let Some(last) = joined.checked_sub(1) else {
            return 0.0;
        };
        let jobs = |jitter: f64, period: f64| (window + jitter) / period - 1e-12;
        let is_exact = (window + self.max_jitter) / self.min_period < EXACT_CEIL;
        let exact = if is_exact { last - last % LANES } else { 0 };
        let (costs, _) = self.costs[..exact].as_chunks::<LANES>();
        let (periods, _) = self.periods[..exact].as_chunks::<LANES>();
        let (jitters, _) = self.jitters[..exact].as_chunks::<LANES>();
        let mut sum = 0.0;
        for ((costs, periods), jitters) in costs.iter().zip(periods).zip(jitters) {
            let mut work = [0.0; LANES];
            let tasks = costs.iter().zip(periods).zip(jitters);
            for (work, ((cost, period), jitter)) in work.iter_mut().zip(tasks) {
                *work = ceil(jobs(*jitter, *period)) * cost;
            }
            // One after the other, so that the sum does not depend on the number of lanes.
            for work in work {
                sum += work;
            }
        }
        let jobs = |place: usize| jobs(self.jitters[place], self.periods[place]).ceil();
        for place in exact..last {
            sum += jobs(place) * self.costs[place];
        }
        sum + jobs(last) * last_cost
    }

    /// Returns an upper limit of the number of jobs of the tasks before `index` that
    /// arrive in a window.
    fn arrivals(&self, index: usize, window: f64) -> f64 {
        let (joined, _) = self.before[index];
        let rate = joined.checked_sub(1).map_or(0.0, |last| self.rates[last]);
        (window + self.max_jitter) * rate + joined as f64
    }
}

/// Number of tasks that are computed at once.
const LANES: usize = 8;
/// Limit below which [`ceil`] is exact.
const EXACT_CEIL: f64 = (1_u64 << 51) as f64;

/// Returns the smallest integer from `value`, which is above -0.25 and below
/// [`EXACT_CEIL`]. The least common x86-64 processor has no instruction for it.
#[inline]
fn ceil(value: f64) -> f64 {
    /// Has no fraction bits, so that adding it rounds to the nearest integer.
    const WHOLE: f64 = (1_u64 << 52) as f64;
    let nearest = (value + WHOLE) - WHOLE;
    nearest + if nearest < value { 1.0 } else { 0.0 }
}

/// Maximum load of a bounded response.
const MAX_LOAD: f64 = 1.0 + 1e-12;

const UNBOUNDED: Response = Response {
    time: f64::INFINITY,
    job: 0,
};

/// Returns the worst response of every task, in the order of `tasks`.
///
/// # Errors
/// When a task is not valid.
pub fn response_times(tasks: &[Task], supply: Supply<'_>) -> Result<Vec<Response>, InputError> {
    let analysis = checked(tasks, supply)?;
    Ok((0..tasks.len())
        .map(|index| analysis.response(index))
        .collect())
}

/// Returns whether every task meets its deadline.
///
/// # Errors
/// When a task is not valid.
pub fn is_schedulable(tasks: &[Task], supply: Supply<'_>) -> Result<bool, InputError> {
    let analysis = checked(tasks, supply)?;
    // The last of equal tasks has the longest response.
    let is_last = |&index: &usize| tasks.get(index + 1) != Some(&tasks[index]);
    // The least urgent task has the least time left, so it decides most sets.
    let mut last_first = (0..tasks.len()).rev().filter(is_last);
    Ok(last_first.all(|index| analysis.meets_deadline(index)))
}

fn checked<'a>(tasks: &'a [Task], supply: Supply<'a>) -> Result<Analysis<'a>, InputError> {
    tasks.iter().try_for_each(|task| task.check())?;
    not_negative("overhead", supply.overhead)?;
    Ok(Analysis::new(tasks, supply))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::{hyperbolic_product, utilization, utilization_bound};
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

    /// Returns the work of the `higher` tasks as the formula states it.
    fn stated_interference(higher: &[Task], window: f64) -> f64 {
        let jobs = |task: &Task| ((window + task.jitter) / task.period - 1e-12).ceil();
        let joined = crate::sched::task::joined(higher);
        joined.iter().map(|task| jobs(task) * task.cost).sum()
    }

    proptest! {
        #[test]
        fn interference_is_bit_for_bit_as_stated(
            tasks in proptest::collection::vec((1..4_u32, 1..9_u32, 0..3_u32), 1..40),
            exponent in 0.0..70.0_f64,
        ) {
            let task = |&(cost, period, jitter): &(u32, u32, u32)| Task {
                jitter: f64::from(jitter) / 3.0,
                ..Task::new(f64::from(cost) / 7.0, f64::from(period) / 3.0)
            };
            let tasks: Vec<Task> = tasks.iter().map(task).collect();
            let interference = Interference::new(&tasks, 0.0);
            for window in [exponent.exp2(), exponent.exp2().round(), f64::INFINITY] {
                for index in 0..tasks.len() {
                    let work = interference.before(index, window);
                    prop_assert!(work == stated_interference(&tasks[..index], window));
                }
            }
        }

        #[test]
        fn fast_ceil_is_the_ceil(value in -0.25..1e15_f64, whole in 0..1_u64 << 51) {
            prop_assert!(ceil(value) == value.ceil());
            let whole = whole as f64;
            for near in [whole.next_down(), whole, whole.next_up()] {
                prop_assert!(ceil(near) == near.ceil());
            }
        }

        #[test]
        fn schedulable_set_has_no_response_after_its_deadline(
            tasks in proptest::collection::vec((1..9_u32, 20..60_u32, 0..4_u32, 0..4_u32, 10..90_u32), 1..9),
            stall in 0.0..9.0_f64,
        ) {
            let task = |&(cost, period, jitter, blocking, deadline): &(u32, u32, u32, u32, u32)| Task {
                jitter: f64::from(jitter),
                blocking: f64::from(blocking),
                deadline: f64::from(deadline),
                ..Task::new(f64::from(cost), f64::from(period))
            };
            let tasks: Vec<Task> = tasks.iter().map(task).collect();
            let stalls = |window: f64| stall.min(window);
            let supply = Supply { envelope: Some(&stalls), overhead: 0.5 };
            let responses = response_times(&tasks, supply).unwrap();
            let in_time = responses.iter().zip(&tasks).all(|(response, task)| {
                response.time <= task.deadline + ROUNDING
            });
            prop_assert!(is_schedulable(&tasks, supply).unwrap() == in_time);
        }

        #[test]
        fn more_work_never_shortens_a_response(tasks in tasks(), at in 0..5_usize, more in 0.1..2.0_f64) {
            let before = response_times(&tasks, Supply::default()).unwrap();
            let mut harder = tasks.clone();
            let changed = at % tasks.len();
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
