//! Unexpected end of a load.

use laggard_model::{Caveat, LoadRun};

/// Load that ended by itself or was stopped, unexpectedly.
#[derive(Clone, Debug)]
pub(crate) struct LoadEnded {
    /// Entry in the manifest.
    pub(crate) run: LoadRun,
    pub(crate) caveat: Caveat,
}

/// Failure of the user's command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// Text of the message.
    pub what: String,
    /// Reason of its end, such as `exit status 3`.
    pub how: String,
    /// Code as shells report it: the exit status, or 128 plus the signal number.
    pub code: u8,
}
