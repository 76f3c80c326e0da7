//! Kernel events of interrupts, DPCs, context switches and ready threads (ETW), from a session
//! that is read while it runs; or the reason why they are missing.

mod consumer;
mod events;
mod flight;
mod session;

use std::fmt;

pub(super) use events::KernelEvents;
pub use flight::{EventFlight, ImageBook};

/// Reason why kernel events are missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NoEvents {
    /// This process lacks the right.
    Rights,
    /// The maximum number of sessions is in use.
    Taken,
    /// The system refused the session with this error.
    Refused(u32),
    /// The session starts but cannot be read, with this error. This happens under Wine, which does
    /// not have events.
    Unreadable(u32),
    /// A thread for reading the events could not be started.
    NoThread,
    /// The machine has several groups of CPUs, and events number CPUs differently from this
    /// process.
    Groups,
}

impl NoEvents {
    pub(super) const fn remedy(self) -> &'static str {
        match self {
            Self::Rights => "start the terminal with `Run as administrator`",
            Self::Taken => {
                "end a session (`logman query -ets` lists them, `logman stop NAME -ets` ends one)"
            }
            Self::Refused(_) => "see `net helpmsg NUMBER`; such sessions need Windows 8 or later",
            Self::Unreadable(_) => "measure on Windows",
            Self::NoThread => "end other programs",
            Self::Groups => {
                "measure a machine with at most 64 CPUs, or reduce their number (`bcdedit /set numproc`)"
            }
        }
    }
}

impl fmt::Display for NoEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rights => f.write_str("this user lacks the right"),
            Self::Taken => f.write_str("all sessions that Windows has for them are in use"),
            Self::Refused(code) => write!(f, "Windows refuses a session (error {code})"),
            Self::Unreadable(code) => write!(
                f,
                "a session starts but cannot be read (error {code}), as under Wine, which has no events"
            ),
            Self::NoThread => f.write_str("the system refused a thread to read them"),
            Self::Groups => f.write_str("this machine has several groups of CPUs"),
        }
    }
}

/// Checks whether kernel events are available: starts a session, reads it and ends it.
pub(super) fn events() -> Result<(), NoEvents> {
    let session = session::EventSession::begin(false)?;
    consumer::try_open(&session)
}

#[cfg(test)]
mod tests {
    use super::super::host;
    use super::*;

    #[test]
    fn wine_claims_to_have_events_and_is_found_to_have_none() {
        if host::wine().is_none() {
            println!("skipped: this is Windows, not Wine");
            return;
        }

        assert!(
            matches!(events(), Err(NoEvents::Unreadable(_))),
            "{:?}",
            events()
        );
        assert!(
            matches!(KernelEvents::begin(), Err(NoEvents::Unreadable(_))),
            "a measurement finds the same"
        );
    }
}
