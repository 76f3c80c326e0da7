//! `laggard check` for machines that build and test: `JUnit`'s XML, GitHub's
//! annotations, and a badge.

mod badge;
mod github;
mod junit;

pub use badge::badge;
pub use github::github;
pub use junit::junit;
