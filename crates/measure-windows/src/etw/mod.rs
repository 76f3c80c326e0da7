//! What the kernel tells of its interrupts, DPCs, switches and of who could run (ETW): a
//! session that is read while it runs. Where there is none, that is told.

mod consumer;
mod events;
mod flight;
mod session;

use std::fmt;

pub(super) use events::KernelEvents;
pub use flight::{EventFlight, ImageBook};

/// Why the kernel tells nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NoEvents {
    /// This process may not ask for it.
    Rights,
    /// As many sessions as there can be are there.
    Taken,
    /// The system refused it, with this error.
    Refused(u32),
    /// It says that it does, and the session cannot be read, with this error: so does
    /// Wine, which has no events.
    Unreadable(u32),
    /// There is no thread to read them with.
    NoThread,
    /// The machine has several groups of CPUs, and events have other numbers of them than
    /// this process has.
    Groups,
}

impl NoEvents {
    /// What to do.
    pub(super) const fn remedy(self) -> &'static str {
        match self {
            Self::Rights => "start the terminal with `Run as administrator`",
            Self::Taken => {
                "end one: `logman query -ets` lists them, `logman stop NAME -ets` ends it"
            }
            Self::Refused(_) => {
                "`net helpmsg NUMBER` says what it means; Windows 8 or later has such sessions"
            }
            Self::Unreadable(_) => "measure on Windows",
            Self::NoThread => "end other programs",
            Self::Groups => {
                "measure a machine of 64 CPUs or fewer, or fewer of them (`bcdedit /set numproc`)"
            }
        }
    }
}

impl fmt::Display for NoEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rights => f.write_str("this user may not ask for them"),
            Self::Taken => f.write_str("as many sessions as Windows has for them are begun"),
            Self::Refused(code) => write!(f, "Windows refuses a session (error {code})"),
            Self::Unreadable(code) => write!(
                f,
                "a session begins, and cannot be read (error {code}); so it is under Wine, which has no events"
            ),
            Self::NoThread => f.write_str("the system gave no thread to read them with"),
            Self::Groups => f.write_str("this machine has several groups of CPUs"),
        }
    }
}

/// Whether the kernel's events can be had: a session is begun, read once it is there, and
/// ended.
pub(super) fn events() -> Result<(), NoEvents> {
    let session = session::EventSession::begin(false)?;
    consumer::try_open(&session)
}

#[cfg(test)]
mod tests {
    use super::super::host;
    use super::*;

    #[test]
    fn wine_says_that_it_has_events_and_is_found_to_have_none() {
        if host::wine().is_none() {
            println!("skipped: what Wine says of events: this is Windows");
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
