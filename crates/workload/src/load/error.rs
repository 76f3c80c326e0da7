//! Result of a load, and errors of its start.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

use laggard_model::{CpuList, Throughput};

/// Result of a load.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit status of its first process.
    pub status: ExitStatus,
    /// Work done, if it was reported.
    pub throughput: Option<Throughput>,
    /// Last line of its output, often an error message, if the output was kept in
    /// memory and the line is not the throughput.
    pub last_words: Option<String>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => write!(f, "exit status {code}")?,
            (_, Some(signal)) => write!(f, "killed by signal {signal}")?,
            (None, None) => write!(f, "{}", self.status)?,
        }
        match &self.last_words {
            Some(words) => write!(f, ": {words}"),
            None => Ok(()),
        }
    }
}

/// Reason why a load did not start or could not be observed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The command is empty.
    #[error("the load's command is empty; give one after `--`")]
    Empty,
    /// Only root can run a load as another user.
    #[error(
        "running a load as another user needs root; leave out --load-user, or run this with sudo"
    )]
    NotRoot,
    /// `setpriv`, which changes the user, is missing.
    #[error("running a load as another user needs `setpriv` in /usr/bin; install util-linux")]
    NoSetpriv,
    /// `setpriv` is not util-linux's.
    #[error(
        "running a load as another user needs util-linux's `setpriv`, but `{}` is a different one (Busybox's does not give a user's groups); install util-linux, or run this as root without sudo, where a load runs as root",
        .0.display()
    )]
    OtherSetpriv(PathBuf),
    /// The program could not be started.
    #[error("cannot start the load `{0}`; check its name and that it is in PATH")]
    Start(String, #[source] io::Error),
    /// The shell that ends the load after our death could not be started.
    #[error("cannot start /bin/sh, which ends the load if this program is killed")]
    Guard(#[source] io::Error),
    /// The output could not be opened.
    #[error("cannot write the load's output to {0}; choose another file")]
    Output(String, #[source] io::Error),
    /// The load cannot run on these CPUs.
    #[error("cannot run the load on CPUs {0}; choose from those in /sys/devices/system/cpu/online")]
    Cpus(CpuList, #[source] io::Error),
    /// Normal scheduling was refused.
    #[error("cannot give the load normal (SCHED_OTHER) scheduling")]
    Scheduling(#[source] io::Error),
    /// A held load ended by itself.
    #[error("the load ended before it started to work: {0}")]
    EndedEarly(Ended),
    /// Another part of the program reaped the child, or a signal was refused.
    #[error("lost track of the load `{0}`; check with ps whether it still runs")]
    Lost(String, #[source] io::Error),
}
