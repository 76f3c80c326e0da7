//! Task with n buffers on a system with rare, very long latencies (docs/method.md 9.4,
//! after Cota-Robles, Held & Barnes 1997 and OSDI'99 section 5.2).

use super::{ROUNDING, Response, Supply, Task, response_time};
use crate::InputError;
use crate::input::not_negative;

/// Latency that a task with buffers must expect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyBudget {
    /// Buffers n, 2 or more; the deadline is n - 1 periods.
    pub buffers: u32,
    /// Latency that is exceeded at the permitted failure rate: a return level. At most
    /// one per busy period.
    pub rare: f64,
    /// Amount of each of the other latencies. For soundness, the p99 of sums of n - 2
    /// latencies, divided by n - 2; never the mean.
    pub ordinary: f64,
}

impl LatencyBudget {
    fn cycles(self) -> Result<f64, InputError> {
        not_negative("rare latency", self.rare)?;
        not_negative("ordinary latency", self.ordinary)?;
        not_negative(
            "rare latency less the ordinary one",
            self.rare - self.ordinary,
        )?;
        let cycles = f64::from(self.buffers) - 1.0;
        crate::input::positive("buffers, less one", cycles)
    }

    /// Returns the pseudo worst case: the rare latency amortised over the n - 1 cycles
    /// of buffering, (rare + (n - 2) ordinary) / (n - 1).
    ///
    /// # Errors
    /// With fewer than two buffers, a negative latency, or a rare one below the
    /// ordinary one.
    pub fn pseudo_worst_case(self) -> Result<f64, InputError> {
        let cycles = self.cycles()?;
        Ok((self.rare + (cycles - 1.0) * self.ordinary) / cycles)
    }
}

/// Test of a task with buffers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BufferTest {
    /// Worst response of the task in the model.
    pub response: Response,
    /// Deadline of the test.
    pub deadline: f64,
}

impl BufferTest {
    /// Returns whether the deadline is met.
    pub fn passes(self) -> bool {
        self.response.time <= self.deadline + ROUNDING
    }
}

/// Runs the amortised test: the task's cost grows by the pseudo worst case and its
/// deadline is its period. Sound, and more pessimistic than [`exact_test`].
///
/// # Errors
/// As for [`LatencyBudget::pseudo_worst_case`], or if a task is not valid.
pub fn amortized_test(
    tasks: &[Task],
    index: usize,
    budget: LatencyBudget,
) -> Result<BufferTest, InputError> {
    let mut inflated = tasks.to_vec();
    let amortised = budget.pseudo_worst_case()?;
    let deadline = match inflated.get_mut(index) {
        Some(task) => {
            task.cost += amortised;
            task.period
        }
        None => 0.0,
    };
    let response = response_time(&inflated, index, Supply::default())?;
    Ok(BufferTest { response, deadline })
}

/// Runs the exact test: one job of a busy period has the rare latency, the others the
/// ordinary one, and the deadline is n - 1 periods.
///
/// # Errors
/// As for [`amortized_test`].
pub fn exact_test(
    tasks: &[Task],
    index: usize,
    budget: LatencyBudget,
) -> Result<BufferTest, InputError> {
    let mut inflated = tasks.to_vec();
    let cycles = budget.cycles()?;
    let deadline = match inflated.get_mut(index) {
        Some(task) => {
            task.cost += budget.ordinary;
            task.blocking += budget.rare - budget.ordinary;
            cycles * task.period
        }
        None => 0.0,
    };
    let response = response_time(&inflated, index, Supply::default())?;
    Ok(BufferTest { response, deadline })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    proptest! {
        /// docs/method.md 9.4: soundness of the amortised test.
        #[test]
        fn exact_test_passes_if_the_amortised_one_does(
            high in 0.1..3.0_f64, cost in 0.5..4.0_f64, period in 5.0..20.0_f64,
            buffers in 2..6_u32, rare in 1.0..40.0_f64, ordinary in 0.0..1.0_f64,
        ) {
            let tasks = [Task::new(high, 7.0), Task::new(cost, period)];
            let budget = LatencyBudget { buffers, rare, ordinary };
            if amortized_test(&tasks, 1, budget).unwrap().passes() {
                prop_assert!(exact_test(&tasks, 1, budget).unwrap().passes());
            }
        }
    }

    #[test]
    fn single_buffer_or_rare_latency_below_the_ordinary_is_refused() {
        let tasks = [Task::new(1.0, 6.0)];
        let budget = |buffers, rare| LatencyBudget {
            buffers,
            rare,
            ordinary: 1.0,
        };

        assert!(amortized_test(&tasks, 0, budget(1, 5.0)).is_err());
        assert!(exact_test(&tasks, 0, budget(2, 0.5)).is_err());
        assert!(exact_test(&tasks, 1, budget(2, 5.0)).is_err());
    }

    /// Sums of costs are inexact, and a task that ends exactly at its deadline has not
    /// missed it.
    #[test]
    fn end_exactly_at_the_deadline_is_in_time() {
        let ends = |time| {
            let response = Response { time, job: 0 };
            let deadline = 4e6;
            BufferTest { response, deadline }.passes()
        };

        assert!(ends(4e6));
        assert!(ends(4e6 - 10.0 * ROUNDING));
        assert!(!ends(4e6 + 10.0 * ROUNDING));
        // Two buffers, alone on its processor: cost and latency fill the period.
        let budget = LatencyBudget {
            buffers: 2,
            rare: 3.0,
            ordinary: 1.0,
        };
        let task = |period| [Task::new(2.0, period)];
        assert!(exact_test(&task(5.0), 0, budget).unwrap().passes());
        assert!(amortized_test(&task(5.0), 0, budget).unwrap().passes());
        assert!(!exact_test(&task(4.9), 0, budget).unwrap().passes());
        assert!(!amortized_test(&task(4.9), 0, budget).unwrap().passes());
    }
}
