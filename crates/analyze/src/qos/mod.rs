//! Deadline misses of an application with n buffers (docs/method.md 6; OSDI'99 section
//! 5).
//!
//! The model is a stream of jobs: one per buffer period, each with a compute time. With
//! n buffers, job k is due to start at k periods and must finish n - 1 periods later.
//! It misses if it finishes after that.

mod buffering;
mod cpu;
mod effort;
mod expectation;
mod failures;
mod late;
mod monotone;
mod observed;
mod odds;
mod outlook;
mod rule;
mod runs;
mod sampled;
mod stand_out;

pub use buffering::{Buffering, MissPolicy};
pub use effort::jobs_to_play;
pub use expectation::{Expectation, PredictedCount, expectation};
pub use failures::failures_of_counts;
pub use late::{LateJobs, late_jobs};
pub use monotone::monotone;
pub use observed::Observed;
pub use odds::{SeenFailures, odds_of_verdict};
pub use outlook::{Outlook, outlook};
pub use rule::paper_mean_time;
pub use sampled::{Bounds, Sampled, failure_bounds};
pub use stand_out::stand_out;
