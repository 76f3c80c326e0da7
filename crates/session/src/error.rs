//! Errors of a session, with their remedies.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use laggard_measure::ProbeError;
#[cfg(target_os = "linux")]
use laggard_measure::linux::HandlersRefused;
use laggard_record::{CreateError, WriteError};
use laggard_workload::load::LaunchError;
#[cfg(target_os = "linux")]
use laggard_workload::load::RecipeError;
#[cfg(not(target_os = "linux"))]
use laggard_workload::load::UnknownLoad;

use crate::system::FlightRefused;

#[cfg(not(target_os = "linux"))]
impl From<std::convert::Infallible> for SessionError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// Reason why a watcher cannot continue.
pub type WatchError = Box<dyn Error + Send + Sync>;

/// Reason why a session did not start, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The measurement is impossible as planned.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The script to play is not readable.
    #[error("cannot read the script `{}`", path.display())]
    Script {
        /// Path of the script.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// CPUs cannot be kept out of idle states.
    #[error("cannot keep CPUs awake (needs root and /dev/cpu_dma_latency)")]
    Awake(#[source] io::Error),
    /// Trace data were requested without eBPF.
    #[cfg_attr(
        not(target_os = "linux"),
        error(
            "causes of late wakeups need kernel events, which are not available (`laggard doctor` shows why); omit `--episodes on`"
        )
    )]
    #[cfg_attr(
        target_os = "linux",
        error("episodes need eBPF; record as root, or use `--episodes off` without `--handlers`")
    )]
    NoEpisodes,
    /// Trace data were requested and are not available.
    #[error("cannot watch for late wakeups")]
    Flight(#[source] FlightRefused),
    /// Handlers cannot be counted.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Handlers(#[from] HandlersRefused),
    /// Handlers cannot be counted on this system.
    #[cfg(not(target_os = "linux"))]
    #[error("`--handlers` works only on Linux; omit it")]
    NoHandlers,
    /// Counting handlers was requested without episodes.
    #[error("`--handlers` needs late wakeups to be kept; omit `--episodes off`")]
    HandlersAlone,
    /// A load was requested on a system without loads.
    #[cfg(not(target_os = "linux"))]
    #[error("laggard runs commands as loads only on Linux; start the load separately")]
    NoLoads,
    /// The load is not part of laggard.
    #[cfg(not(target_os = "linux"))]
    #[error(transparent)]
    UnknownLoad(#[from] UnknownLoad),
    /// The recipe of the load is invalid.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The load could not be started, watched or ended.
    #[error(transparent)]
    Load(#[from] LaunchError),
    /// The load could not be set up.
    #[cfg(target_os = "linux")]
    #[error("cannot set up the load `{name}`")]
    SetUp {
        /// Name of the load.
        name: String,
        /// Cause.
        source: LaunchError,
    },
    /// A load that was to continue has ended.
    #[cfg(target_os = "linux")]
    #[error(
        "the load `{name}` ended after the previous recording: {how}; run it separately to see why"
    )]
    LoadGone {
        /// Name of the load.
        name: String,
        /// Reason of its end.
        how: String,
    },
    /// The recording could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// A recording was requested while another is being made.
    #[error("a recording is already being written to `{}`", .0.display())]
    Recording(PathBuf),
    /// Data could not be recorded.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The system refused a thread.
    #[error("cannot start the thread that writes{what}")]
    Thread {
        /// Data that the thread writes.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The recording could not be closed.
    #[error("cannot close the recording")]
    Close(#[source] WriteError),
    /// A watcher could not continue.
    #[error(transparent)]
    Watcher(WatchError),
    /// The measurement did not start, and its empty recording could not be removed.
    #[error("{why}; cannot remove its empty recording: {left}")]
    Left {
        /// Reason why it did not start.
        why: Box<Self>,
        /// Error of the removal.
        left: WriteError,
    },
    /// The measurement ended early. A recording of the time before exists.
    #[error("the recording ended early")]
    RecordingEnded(#[source] Box<Self>),
    /// The measurement ended early.
    #[error("the measurement ended early")]
    MeasuringEnded(#[source] Box<Self>),
}

impl SessionError {
    /// Returns whether this machine cannot do what was requested, as opposed to a failure: a
    /// service or load that is not available, or a plan that takes too much of the machine.
    #[must_use]
    pub fn is_unmet(&self) -> bool {
        match self {
            Self::Probe(err) => err.is_unmet(),
            #[cfg(target_os = "linux")]
            Self::Recipe(err) => err.is_unmet(),
            #[cfg(target_os = "linux")]
            Self::Handlers(_) | Self::Load(_) | Self::SetUp { .. } | Self::LoadGone { .. } => false,
            #[cfg(not(target_os = "linux"))]
            Self::NoLoads | Self::NoHandlers => true,
            Self::Left { why: err, .. } | Self::RecordingEnded(err) | Self::MeasuringEnded(err) => {
                err.is_unmet()
            }
            _ => false,
        }
    }

    /// Returns whether only the recording failed: without it, the measurement would continue.
    #[must_use]
    pub fn is_of_recording(&self) -> bool {
        match self {
            Self::Create(_) | Self::Write(_) | Self::Close(_) | Self::Thread { .. } => true,
            Self::Left { why: err, .. } | Self::RecordingEnded(err) | Self::MeasuringEnded(err) => {
                err.is_of_recording()
            }
            #[cfg(target_os = "linux")]
            Self::Handlers(_)
            | Self::Recipe(_)
            | Self::Load(_)
            | Self::SetUp { .. }
            | Self::LoadGone { .. } => false,
            #[cfg(not(target_os = "linux"))]
            Self::NoLoads | Self::NoHandlers => false,
            _ => false,
        }
    }

    /// Returns the error with its causes in one line.
    #[must_use]
    pub fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(err) = cause {
            text += &format!(": {err}");
            cause = err.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmet_request_is_distinguished_from_a_failure_at_any_depth() {
        let unmet = || SessionError::Probe(ProbeError::NoService);
        let wrong = || SessionError::Thread {
            what: "",
            source: io::ErrorKind::OutOfMemory.into(),
        };

        assert!(unmet().is_unmet());
        assert!(SessionError::MeasuringEnded(Box::new(unmet())).is_unmet());
        assert!(!wrong().is_unmet());
        assert!(!SessionError::RecordingEnded(Box::new(wrong())).is_unmet());
    }

    #[test]
    fn failed_recording_is_distinguished_from_a_failed_measurement() {
        let thread = SessionError::Thread {
            what: "",
            source: io::ErrorKind::OutOfMemory.into(),
        };

        assert!(SessionError::RecordingEnded(Box::new(thread)).is_of_recording());
        let probe = SessionError::Probe(ProbeError::NoService);
        assert!(!SessionError::RecordingEnded(Box::new(probe)).is_of_recording());
    }

    #[test]
    fn error_in_full_names_every_cause() {
        let err = SessionError::RecordingEnded(Box::new(SessionError::Script {
            path: "x.toml".into(),
            source: io::Error::other("no such thing"),
        }));

        assert_eq!(
            err.in_full(),
            "the recording ended early: cannot read the script `x.toml`: no such thing"
        );
    }
}
