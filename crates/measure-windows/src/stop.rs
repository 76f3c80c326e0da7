//! That measuring is to end: for a thread that looks, and for one that waits.

use std::io;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering};

use windows_sys::Win32::System::Threading::{CreateEventW, SetEvent};

/// Given once, and then for good.
#[derive(Debug)]
pub(super) struct StopSignal {
    is_given: AtomicBool,
    event: OwnedHandle,
}

impl StopSignal {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no name and no rights of its own; nobody resets it.
        let event = unsafe { CreateEventW(null(), 1, 0, null()) };
        if event.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            is_given: AtomicBool::new(false),
            // SAFETY: it is open, and nobody else's.
            event: unsafe { OwnedHandle::from_raw_handle(event) },
        })
    }

    /// Ends all waits for it, those that begin later too.
    pub(super) fn give(&self) {
        self.is_given.store(true, Ordering::Relaxed);
        // SAFETY: the event is open.
        unsafe { SetEvent(self.event.as_raw_handle()) };
    }

    pub(super) fn is_given(&self) -> bool {
        self.is_given.load(Ordering::Relaxed)
    }

    /// What is signalled once it was given.
    pub(super) fn event(&self) -> io::Result<OwnedHandle> {
        self.event.try_clone()
    }
}
