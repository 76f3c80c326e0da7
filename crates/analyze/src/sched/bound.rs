//! Bounds on utilisation under rate-monotonic priorities, for deadlines equal
//! to periods and no blocking: sufficient, not necessary.

use super::Task;

/// Rounding in a sum of utilisations must not decide.
const ROUNDING: f64 = 1e-12;

/// The share of the processor that all tasks use together.
pub fn utilization(tasks: &[Task]) -> f64 {
    tasks.iter().map(|task| task.utilization()).sum()
}

/// The bound n (2^(1/n) - 1) of Liu & Layland (1973) for `tasks` tasks: 1 for
/// one, ln 2 in the limit.
pub fn utilization_bound(tasks: usize) -> f64 {
    let n = tasks as f64;
    n * ((1.0 / n).exp2() - 1.0)
}

/// Whether the tasks are schedulable by the bound of Liu & Layland.
pub fn is_within_utilization_bound(tasks: &[Task]) -> bool {
    utilization(tasks) <= utilization_bound(tasks.len()) + ROUNDING
}

/// The product of utilisation + 1 over all tasks (Bini & Buttazzo 2003).
pub fn hyperbolic_product(tasks: &[Task]) -> f64 {
    tasks.iter().map(|task| task.utilization() + 1.0).product()
}

/// Whether the tasks are schedulable by the hyperbolic bound: their
/// [`hyperbolic_product`] is at most 2.
pub fn is_within_hyperbolic_bound(tasks: &[Task]) -> bool {
    hyperbolic_product(tasks) <= 2.0 + ROUNDING
}
