//! Reasons why an action on late wakeups is not possible.

use std::io;

use laggard_measure::linux::reason_of;
use thiserror::Error;

use super::MAX_ACTIONS;

/// Reason why an action on late wakeups is not possible.
#[derive(Debug, Error)]
pub enum OnLateError {
    /// The command cannot be run.
    #[error("--on-late: cannot run `{program}`: {reason}")]
    Command {
        /// Program.
        program: String,
        /// Reason.
        reason: String,
    },
    /// The process cannot be signalled.
    #[error("--on-late: cannot signal process {process}: {}{}", reason_of(.reason), remedy(.reason))]
    Process {
        /// Process ID.
        process: u32,
        /// Error of the system.
        reason: io::Error,
    },
    /// The process is this one.
    #[error("--on-late: process {0} is laggard itself; use `stop` to end the measurement")]
    Own(u32),
    /// There are more actions than permitted.
    #[error(
        "--on-late: {0} actions; give at most {MAX_ACTIONS}, or run several programs with one command"
    )]
    TooMany(usize),
    /// The file of the trace cannot be written.
    #[error("--on-late: {0}")]
    File(String),
    /// The system refused a thread.
    #[error("--on-late: cannot start the thread that acts")]
    Thread(#[source] io::Error),
}

/// Returns the way to signal a process of another user.
fn remedy(reason: &io::Error) -> &'static str {
    if reason.kind() == io::ErrorKind::PermissionDenied {
        "; run laggard as root or as the user of that process"
    } else {
        ""
    }
}
