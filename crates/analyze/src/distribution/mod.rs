//! Distributions of latency per service, route and stage.
//!
//! A [`Fold`] takes batches of activations on any number of threads (folds merge), and
//! [`Fold::groups`] sorts the result by service. A [`Course`] follows one service over
//! time, [`Courses`] all of them.

mod blocks;
mod course;
mod courses;
mod fold;
mod group;
mod intervals;
mod latest;
mod line;
mod lost;
mod quantile;
mod tally;

pub use blocks::LatencyBlocks;
pub use course::{Course, CourseInterval, Cut, Focus, INTERVALS, Point, limit};
pub use courses::{Courses, focuses};
pub use fold::{Fold, LineSum, Split};
pub use group::{Group, Key};
pub use intervals::{Between, LineIntervals, RunIntervals};
pub use latest::Latest;
pub use lost::Lost;
pub use quantile::{MIN_BEYOND, QUANTILES, Quantile, bounded, quantile};
pub use tally::Tally;
