//! How a load ends that should not have.

use laggard_model::{Caveat, LoadRun};

/// A load ended by itself or was stopped, which it should not have.
#[derive(Clone, Debug)]
pub(crate) struct LoadEnded {
    /// What the manifest says of it.
    pub(crate) run: LoadRun,
    pub(crate) caveat: Caveat,
}

/// How the user's own command failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// What to say of it.
    pub what: String,
    /// How it ended: `exit status 3`.
    pub how: String,
    /// As shells have it: its exit status, or 128 and the signal's number.
    pub code: u8,
}
