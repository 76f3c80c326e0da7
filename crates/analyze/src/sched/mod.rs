//! Schedulability of a set of periodic tasks (docs/method.md 9; OSDI'99 section 5.2).
//!
//! One processor, fixed priorities or earliest deadline first, preemptive. Measured
//! latencies enter as release jitter, as blocking, as top-priority tasks, or as a
//! blackout envelope: each in one of these, never in two.

mod amortized;
mod bound;
mod demand;
mod envelope;
mod rated;
mod response;
mod supply;
mod task;

pub use amortized::{BufferTest, LatencyBudget, amortized_test, exact_test};
pub use bound::{hyperbolic_product, utilization, utilization_bound};
pub use demand::{Demand, DemandPoint, edf_demand};
pub use envelope::blackout_envelope;
pub use rated::{CpuBlackouts, RatedEnvelope, rated_envelope};
pub use response::{Response, Supply, is_schedulable, response_time, response_times};
pub use supply::{Envelope, breakdown_utilization};
pub use task::Task;

/// Relative error of sums of times, which must not decide about a deadline.
const ROUNDING: f64 = 1e-9;
