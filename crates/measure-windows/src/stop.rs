//! Signal to end the measurement, for threads that poll and threads that wait.

use std::io;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering};

use windows_sys::Win32::System::Threading::{CreateEventW, SetEvent};

/// Signal that is given once and never reset.
#[derive(Debug)]
pub(super) struct StopSignal {
    is_given: AtomicBool,
    event: OwnedHandle,
}

impl StopSignal {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: the event is unnamed and has default rights; it is never reset.
        let event = unsafe { CreateEventW(null(), 1, 0, null()) };
        if event.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            is_given: AtomicBool::new(false),
            // SAFETY: the handle is open, and nothing else owns it.
            event: unsafe { OwnedHandle::from_raw_handle(event) },
        })
    }

    /// Ends all current and later waits for the signal.
    pub(super) fn give(&self) {
        self.is_given.store(true, Ordering::Relaxed);
        // SAFETY: the event is open.
        unsafe { SetEvent(self.event.as_raw_handle()) };
    }

    pub(super) fn is_given(&self) -> bool {
        self.is_given.load(Ordering::Relaxed)
    }

    /// Returns a handle that is signalled once the signal is given.
    pub(super) fn event(&self) -> io::Result<OwnedHandle> {
        self.event.try_clone()
    }
}
