//! Bounds on utilisation under rate-monotonic priorities, for deadlines equal to
//! periods and no blocking: sufficient, not necessary.

use super::Task;

/// Returns the total utilisation of the processor.
pub fn utilization(tasks: &[Task]) -> f64 {
    tasks.iter().map(|task| task.utilization()).sum()
}

/// Returns the bound n (2^(1/n) - 1) of Liu & Layland (1973) for `tasks` tasks: 1 for
/// one, ln 2 in the limit.
pub fn utilization_bound(tasks: usize) -> f64 {
    let n = tasks as f64;
    n * ((1.0 / n).exp2() - 1.0)
}

/// Returns the product of utilisation + 1 over all tasks (Bini, Buttazzo &
/// Buttazzo 2003).
pub fn hyperbolic_product(tasks: &[Task]) -> f64 {
    tasks.iter().map(|task| task.utilization() + 1.0).product()
}
