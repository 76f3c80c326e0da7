//! How a load ended, and why it did not run.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

use laggard_model::{CpuList, Throughput};

/// How a load ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its first process's exit status.
    pub status: ExitStatus,
    /// What it did, where it told.
    pub throughput: Option<Throughput>,
    /// The last line that it wrote, where its output was kept in memory and
    /// that line is not the throughput: often an error text.
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

/// Why a load did not start or could not be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// There is no command.
    #[error("the load's command is empty; give one after `--`")]
    Empty,
    /// Only root can have a load run as another user.
    #[error(
        "running a load as another user takes root; leave out --load-user, or run this with sudo"
    )]
    NotRoot,
    /// What changes the user is missing.
    #[error("running a load as another user takes `setpriv` in /usr/bin; install util-linux")]
    NoSetpriv,
    /// What changes the user is not util-linux's.
    #[error(
        "running a load as another user takes util-linux's `setpriv`, and `{}` is another (Busybox's does not give a user's groups); install util-linux, or run this as root without sudo, where a load runs as root",
        .0.display()
    )]
    OtherSetpriv(PathBuf),
    /// The program could not be run.
    #[error("cannot start the load `{0}`; check its name and that it is in PATH")]
    Start(String, #[source] io::Error),
    /// The shell that ends the load when we die could not be run.
    #[error("cannot start /bin/sh, which ends the load should this program be killed")]
    Guard(#[source] io::Error),
    /// The output has nowhere to go.
    #[error("cannot write the load's output to {0}; choose another file")]
    Output(String, #[source] io::Error),
    /// The load cannot run on these CPUs.
    #[error("cannot run the load on CPUs {0}; choose from those in /sys/devices/system/cpu/online")]
    Cpus(CpuList, #[source] io::Error),
    /// Normal scheduling was refused.
    #[error("cannot give the load normal (SCHED_OTHER) scheduling")]
    Scheduling(#[source] io::Error),
    /// A held load ended by itself.
    #[error("the load ended before it began to work: {0}")]
    EndedEarly(Ended),
    /// Somebody else reaped our child, or a signal was refused.
    #[error("lost track of the load `{0}`; look with ps whether it still runs")]
    Lost(String, #[source] io::Error),
}
