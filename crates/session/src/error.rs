//! What can go wrong with a session: what, where, and what to do.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use laggard_measure::ProbeError;
#[cfg(target_os = "linux")]
use laggard_measure::linux::HandlersRefused;
use laggard_record::{CreateError, WriteError};
#[cfg(target_os = "linux")]
use laggard_workload::load::{LaunchError, RecipeError};

use crate::system::FlightRefused;

#[cfg(not(target_os = "linux"))]
impl From<std::convert::Infallible> for SessionError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// Why a watcher cannot go on.
pub type WatchError = Box<dyn Error + Send + Sync>;

/// Why a session did not begin, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Nothing can be measured as planned.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The script that was to be played cannot be read.
    #[error("read the script `{}`", path.display())]
    Script {
        /// The script's file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// CPUs cannot be kept from idle states.
    #[error("keep CPUs awake (needs root and /dev/cpu_dma_latency)")]
    Awake(#[source] io::Error),
    /// Evidence was asked for where there is no eBPF.
    #[cfg_attr(
        not(target_os = "linux"),
        error(
            "late activations are explained by the kernel's events, which cannot be had here (`laggard doctor` says why); leave `--episodes on` out"
        )
    )]
    #[cfg_attr(
        target_os = "linux",
        error("episodes need eBPF; record as root, or use `--episodes off` without `--handlers`")
    )]
    NoEpisodes,
    /// Evidence was asked for and cannot be had.
    #[error("watch for late activations")]
    Flight(#[source] FlightRefused),
    /// Handlers were to be counted and cannot be.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Handlers(#[from] HandlersRefused),
    /// Handlers were to be counted where nothing counts them.
    #[cfg(not(target_os = "linux"))]
    #[error("`--handlers` counts on Linux alone; leave it out")]
    NoHandlers,
    /// Handlers were to be counted, but nothing to be kept with them.
    #[error(
        "`--handlers` counts beside the late activations that are kept; leave `--episodes off` out"
    )]
    HandlersAlone,
    /// A load was asked for where there is none.
    #[cfg(not(target_os = "linux"))]
    #[error("loads run on Linux alone; start what is to run meanwhile yourself")]
    NoLoads,
    /// There is no such load here.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The load could not be started, watched or ended.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Load(#[from] LaunchError),
    /// The load could not be set up.
    #[cfg(target_os = "linux")]
    #[error("set up the load `{name}`")]
    SetUp {
        /// The load.
        name: String,
        /// What went wrong.
        source: LaunchError,
    },
    /// A load that was to go on did not.
    #[cfg(target_os = "linux")]
    #[error(
        "the load `{name}` ended after the recording before: {how}; run it by itself to see why"
    )]
    LoadGone {
        /// The load.
        name: String,
        /// How it ended.
        how: String,
    },
    /// The recording could not be begun.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// A recording was wished for while one is being made.
    #[error("`{}` is being recorded already", .0.display())]
    Recording(PathBuf),
    /// Something could not be recorded.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The system gave no thread.
    #[error("start the thread that writes{what}")]
    Thread {
        /// What it writes.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// What was recorded could not be closed.
    #[error("close the recording")]
    Close(#[source] WriteError),
    /// A watcher could not go on.
    #[error(transparent)]
    Watcher(WatchError),
    /// Measuring could not begin, and its empty recording could not be removed.
    #[error("{why}; its empty recording could not be removed: {left}")]
    Left {
        /// Why it could not begin.
        why: Box<Self>,
        /// What is in the way.
        left: WriteError,
    },
    /// Measuring ended early. A recording was made of the time before.
    #[error("the recording ended early")]
    RecordingEnded(#[source] Box<Self>),
    /// Measuring ended early.
    #[error("measuring ended early")]
    MeasuringEnded(#[source] Box<Self>),
}

impl SessionError {
    /// Whether this machine cannot do what was asked, rather than that anything
    /// went wrong: a service or load that cannot be had here, or a plan that
    /// takes too much of it.
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
            Self::Script { .. }
            | Self::Awake(_)
            | Self::NoEpisodes
            | Self::Flight(_)
            | Self::HandlersAlone
            | Self::Create(_)
            | Self::Recording(_)
            | Self::Write(_)
            | Self::Thread { .. }
            | Self::Close(_)
            | Self::Watcher(_) => false,
        }
    }

    /// Whether only the recording is to blame: without one, measuring would go on.
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
            Self::Probe(_)
            | Self::Script { .. }
            | Self::Awake(_)
            | Self::NoEpisodes
            | Self::Flight(_)
            | Self::HandlersAlone
            | Self::Recording(_)
            | Self::Watcher(_) => false,
        }
    }

    /// The error with what caused it, in one line.
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
    fn what_cannot_be_had_here_is_told_from_what_went_wrong_however_deep_it_is() {
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
    fn a_recording_that_cannot_be_written_is_told_from_measuring_that_cannot_go_on() {
        let thread = SessionError::Thread {
            what: "",
            source: io::ErrorKind::OutOfMemory.into(),
        };

        assert!(SessionError::RecordingEnded(Box::new(thread)).is_of_recording());
        let probe = SessionError::Probe(ProbeError::NoService);
        assert!(!SessionError::RecordingEnded(Box::new(probe)).is_of_recording());
    }

    #[test]
    fn an_error_in_full_names_every_cause() {
        let err = SessionError::RecordingEnded(Box::new(SessionError::Script {
            path: "x.toml".into(),
            source: io::Error::other("no such thing"),
        }));

        assert_eq!(
            err.in_full(),
            "the recording ended early: read the script `x.toml`: no such thing"
        );
    }
}
