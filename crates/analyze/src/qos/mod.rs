//! How often an application with n buffers misses its deadline
//! (docs/method.md 6; OSDI'99 section 5).
//!
//! A stream of jobs, one per buffer period, each needing some compute time.
//! With n buffers job k, due to start at k periods, must have finished n - 1
//! periods later. It misses when it finishes after that.

mod blackouts;
mod bounds;
mod buffering;
mod effort;
mod expectation;
mod failures;
mod late;
mod monotone;
mod outlook;
mod rule;
mod runs;
mod sampled;
mod series;
mod stalls;

pub(crate) use blackouts::check as check_blackouts;
pub use blackouts::{BlackoutReplay, replay_blackouts};
pub use bounds::{Blackout, BlackoutBounds, blackout_bounds, blackouts_of};
pub use buffering::Buffering;
pub use effort::jobs_to_play;
pub use expectation::{Expectation, Expected, expectation};
pub use late::{LateJobs, MeanReplay, late_jobs, late_over_phases};
pub use monotone::monotone;
pub use outlook::{Observed, Outlook, failures_of_counts, outlook};
pub use rule::{extremal_index_of_isolated_stalls, mean_time_to_failure, paper_mean_time};
pub use sampled::{Bounds, Sampled, failure_bounds};
pub use series::{Carry, MissPolicy, SeriesReplay, replay_series};
pub use stalls::{StallFailures, failures_of_isolated_stalls};

/// How many runs of consecutive misses there are.
fn episodes_of(missed: impl IntoIterator<Item = bool>) -> usize {
    let mut before = false;
    let mut episodes = 0;
    for miss in missed {
        if miss && !before {
            episodes += 1;
        }
        before = miss;
    }
    episodes
}
