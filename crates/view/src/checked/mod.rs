//! `laggard check` for machines that build and test: `JUnit`'s XML, and GitHub's
//! annotations.

mod github;
mod junit;

pub use github::github;
pub use junit::junit;
