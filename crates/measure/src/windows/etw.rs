//! Whether the kernel tells of its interrupts, DPCs and switches (ETW): a session is
//! begun, read once it is there, and ended.

use std::mem;

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_ALREADY_EXISTS, ERROR_NO_SYSTEM_RESOURCES, GetLastError,
};
use windows_sys::Win32::System::Diagnostics::Etw::{
    CONTROLTRACE_HANDLE, CloseTrace, ControlTraceW, EVENT_TRACE_CONTROL_STOP,
    EVENT_TRACE_FLAG_CSWITCH, EVENT_TRACE_FLAG_DPC, EVENT_TRACE_FLAG_INTERRUPT,
    EVENT_TRACE_LOGFILEW, EVENT_TRACE_PROPERTIES, EVENT_TRACE_REAL_TIME_MODE,
    EVENT_TRACE_SYSTEM_LOGGER_MODE, OpenTraceW, PROCESS_TRACE_MODE_EVENT_RECORD,
    PROCESS_TRACE_MODE_RAW_TIMESTAMP, PROCESS_TRACE_MODE_REAL_TIME, StartTraceW,
    WNODE_FLAG_TRACED_GUID,
};
use windows_sys::core::{GUID, w};

use super::host;

/// The session's name; a session outlives its program, so one that was left is known by it.
const NAME: windows_sys::core::PCWSTR = w!("laggard");
/// Of this program's sessions alone.
const OWN: GUID = GUID::from_u128(0x7a8c_1d4e_93f2_4b61_8c0d_5e2f_a1b7_6c39);
/// Time stamps of the performance counter.
const QPC: u32 = 1;
/// `INVALID_PROCESSTRACE_HANDLE`.
const INVALID: u64 = u64::MAX;
/// More than the name is long, bytes.
const ROOM: usize = 64;

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
}

/// What a session is asked for with, and its name behind it.
#[repr(C)]
struct Properties {
    head: EVENT_TRACE_PROPERTIES,
    name: [u8; ROOM],
}

/// A session that was begun; ended when dropped, also by a panic.
struct Session(CONTROLTRACE_HANDLE);

impl Drop for Session {
    fn drop(&mut self) {
        let mut properties = properties();
        // SAFETY: the session is this one, and `properties` says how long it is.
        unsafe {
            ControlTraceW(
                self.0,
                std::ptr::null(),
                &raw mut properties.head,
                EVENT_TRACE_CONTROL_STOP,
            )
        };
    }
}

/// Whether the kernel's events can be had.
pub(super) fn events() -> Result<(), NoEvents> {
    let session = begin()?;
    let mut log = EVENT_TRACE_LOGFILEW {
        LoggerName: NAME.cast_mut(),
        ..EVENT_TRACE_LOGFILEW::default()
    };
    log.Anonymous1.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME
        | PROCESS_TRACE_MODE_EVENT_RECORD
        | PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    // SAFETY: `log` is valid, its name ends in a NUL, and there are no callbacks: none is
    //         called before `ProcessTrace`, which nobody calls.
    let (opened, error) = unsafe { (OpenTraceW(&raw mut log), GetLastError()) };
    if opened.Value == INVALID {
        return Err(NoEvents::Unreadable(error));
    }
    // SAFETY: it is open, and closed once.
    unsafe { CloseTrace(opened) };
    drop(session);
    Ok(())
}

fn begin() -> Result<Session, NoEvents> {
    match start() {
        Err(ERROR_ALREADY_EXISTS) => {
            end_left();
            start()
        }
        other => other,
    }
    .map_err(|error| match error {
        ERROR_ACCESS_DENIED => NoEvents::Rights,
        ERROR_NO_SYSTEM_RESOURCES => NoEvents::Taken,
        other => NoEvents::Refused(other),
    })
}

fn start() -> Result<Session, u32> {
    let mut properties = properties();
    let mut handle = CONTROLTRACE_HANDLE::default();
    // SAFETY: the name ends in a NUL; `properties` says how long it is, with room for the
    //         name.
    match unsafe { StartTraceW(&raw mut handle, NAME, &raw mut properties.head) } {
        0 => Ok(Session(handle)),
        error => Err(error),
    }
}

/// Ends the session of a program of ours that did not.
fn end_left() {
    let mut properties = properties();
    // SAFETY: no handle, but a name that ends in a NUL; `properties` says how long it is.
    unsafe {
        ControlTraceW(
            CONTROLTRACE_HANDLE::default(),
            NAME,
            &raw mut properties.head,
            EVENT_TRACE_CONTROL_STOP,
        )
    };
}

fn properties() -> Properties {
    let mut head = EVENT_TRACE_PROPERTIES::default();
    head.Wnode.BufferSize = host::size(mem::size_of::<Properties>());
    head.Wnode.Guid = OWN;
    head.Wnode.ClientContext = QPC;
    head.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    head.LogFileMode = EVENT_TRACE_REAL_TIME_MODE | EVENT_TRACE_SYSTEM_LOGGER_MODE;
    head.EnableFlags = EVENT_TRACE_FLAG_INTERRUPT | EVENT_TRACE_FLAG_DPC | EVENT_TRACE_FLAG_CSWITCH;
    head.LoggerNameOffset = host::size(mem::offset_of!(Properties, name));
    Properties {
        head,
        name: [0; ROOM],
    }
}

#[cfg(test)]
mod tests {
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
    }
}
