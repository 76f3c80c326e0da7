//! Session where the kernel reports events.
//!
//! It outlives a killed program, so its name identifies the process. The next laggard ends
//! sessions of processes that are gone.

use std::mem;
use std::os::windows::io::{AsRawHandle as _, BorrowedHandle, FromRawHandle as _, OwnedHandle};

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_INVALID_PARAMETER, ERROR_MORE_DATA, ERROR_NO_SYSTEM_RESOURCES,
    FILETIME, GetLastError, STILL_ACTIVE,
};
use windows_sys::Win32::System::Diagnostics::Etw::{
    CLASSIC_EVENT_ID, CONTROLTRACE_HANDLE, ControlTraceW, EVENT_TRACE_CONTROL_FLUSH,
    EVENT_TRACE_CONTROL_STOP, EVENT_TRACE_FLAG_CSWITCH, EVENT_TRACE_FLAG_DISPATCHER,
    EVENT_TRACE_FLAG_DPC, EVENT_TRACE_FLAG_IMAGE_LOAD, EVENT_TRACE_FLAG_INTERRUPT,
    EVENT_TRACE_FLAG_PROCESS, EVENT_TRACE_FLAG_PROFILE, EVENT_TRACE_FLAG_THREAD,
    EVENT_TRACE_PROPERTIES, EVENT_TRACE_REAL_TIME_MODE, EVENT_TRACE_SYSTEM_LOGGER_MODE,
    PerfInfoGuid, QueryAllTracesW, StartTraceW, TraceSetInformation, TraceStackTracingInfo,
    WNODE_FLAG_TRACED_GUID,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetExitCodeProcess, GetProcessTimes, OpenProcess,
    PROCESS_QUERY_LIMITED_INFORMATION,
};
use windows_sys::core::GUID;

use super::super::host;
use super::NoEvents;

/// Prefix of a session's name before the PID.
const NAME_PREFIX: &str = "laggard-";
/// GUID of this program's sessions. Its first number is the PID.
const OWN: GUID = GUID::from_u128(0x0000_0000_93f2_4b61_8c0d_5e2f_a1b7_6c39);
/// Type of a sample among the events of its class.
const SAMPLE: u8 = 46;
/// Clock of the time stamps: the performance counter.
const QPC: u32 = 1;
/// Size of a buffer in KiB. An incomplete buffer is read after a flush.
const BUFFER_KIB: u32 = 64;
/// Number of buffers, or four per CPU, and double that if it is not enough: at the start every
/// image, process and thread is reported before the reader runs.
const MIN_BUFFERS: u32 = 128;
/// Interval of automatic flushes in s.
const FLUSH_S: u32 = 1;
/// Maximum length of a session's name with its NUL in UTF-16 units (`ETW_MAX_...`: 1,024).
const MAX_NAME_UNITS: usize = 1_024;
/// Maximum number of sessions of Windows.
const MAX_SESSIONS: usize = 64;

/// Properties of a session, followed by its name.
#[repr(C)]
struct Properties {
    head: EVENT_TRACE_PROPERTIES,
    name: [u16; MAX_NAME_UNITS],
    /// Unused by laggard's sessions, which write no file; other sessions use it.
    file: [u16; MAX_NAME_UNITS],
}

impl Properties {
    fn empty() -> Self {
        let mut head = EVENT_TRACE_PROPERTIES::default();
        head.Wnode.BufferSize = host::size(mem::size_of::<Self>());
        head.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
        head.LoggerNameOffset = host::size(mem::offset_of!(Self, name));
        head.LogFileNameOffset = host::size(mem::offset_of!(Self, file));
        Self {
            head,
            name: [0; MAX_NAME_UNITS],
            file: [0; MAX_NAME_UNITS],
        }
    }

    /// Returns the properties of this process's session.
    fn own() -> Self {
        let mut own = Self::empty();
        own.head.Wnode.Guid = GUID {
            data1: std::process::id(),
            ..OWN
        };
        own.head.LogFileNameOffset = 0;
        own
    }
}

/// Running session. It ends on drop, also after a panic.
#[derive(Debug)]
pub(super) struct EventSession {
    /// Value of its `CONTROLTRACE_HANDLE`.
    handle: u64,
    name: Vec<u16>,
}

impl EventSession {
    /// Starts a session, with samples of running code if `samples` is set.
    pub(super) fn begin(samples: bool) -> Result<Self, NoEvents> {
        end_left();
        let name = name(std::process::id(), own_creation());
        let name: Vec<u16> = name.encode_utf16().chain([0]).collect();
        let processors = host::size(host::processors());
        let mut properties = Properties::own();
        let head = &mut properties.head;
        head.Wnode.ClientContext = QPC;
        head.BufferSize = BUFFER_KIB;
        head.MinimumBuffers = MIN_BUFFERS.max(processors * 4);
        head.MaximumBuffers = head.MinimumBuffers * 2;
        head.FlushTimer = FLUSH_S;
        head.LogFileMode = EVENT_TRACE_REAL_TIME_MODE | EVENT_TRACE_SYSTEM_LOGGER_MODE;
        head.EnableFlags = EVENT_TRACE_FLAG_INTERRUPT
            | EVENT_TRACE_FLAG_DPC
            | EVENT_TRACE_FLAG_CSWITCH
            | EVENT_TRACE_FLAG_DISPATCHER
            | EVENT_TRACE_FLAG_PROCESS
            | EVENT_TRACE_FLAG_THREAD
            | EVENT_TRACE_FLAG_IMAGE_LOAD;
        if samples {
            head.EnableFlags |= EVENT_TRACE_FLAG_PROFILE;
        }
        let mut handle = CONTROLTRACE_HANDLE::default();
        // SAFETY: the name ends in a NUL; `properties` states its size, with room for the name.
        match unsafe { StartTraceW(&raw mut handle, name.as_ptr(), &raw mut properties.head) } {
            0 => Ok(Self {
                handle: handle.Value,
                name,
            }),
            ERROR_ACCESS_DENIED => Err(NoEvents::Rights),
            ERROR_NO_SYSTEM_RESOURCES => Err(NoEvents::Taken),
            other => Err(NoEvents::Refused(other)),
        }
    }

    /// Requests a call chain after each sample. If it is not available, a sample is only an
    /// address.
    pub(super) fn have_chains(&self) {
        let sample = CLASSIC_EVENT_ID {
            EventGuid: PerfInfoGuid,
            Type: SAMPLE,
            ..CLASSIC_EVENT_ID::default()
        };
        // SAFETY: this is the open session, and `sample` is valid for reads of this number of
        // bytes.
        unsafe {
            TraceSetInformation(
                CONTROLTRACE_HANDLE { Value: self.handle },
                TraceStackTracingInfo,
                (&raw const sample).cast(),
                host::size(size_of::<CLASSIC_EVENT_ID>()),
            )
        };
    }

    /// Returns the name with a NUL.
    pub(super) fn name(&self) -> &[u16] {
        &self.name
    }

    /// Requests the delivery of everything written so far. Returns the number of lost events, if
    /// Windows reports it.
    pub(super) fn flush(&self) -> Option<u64> {
        let mut properties = Properties::own();
        // SAFETY: this is the open session, and `properties` states its size.
        let result = unsafe {
            ControlTraceW(
                CONTROLTRACE_HANDLE { Value: self.handle },
                std::ptr::null(),
                &raw mut properties.head,
                EVENT_TRACE_CONTROL_FLUSH,
            )
        };
        let head = &properties.head;
        // A lost buffer contained at least one event.
        (result == 0).then(|| u64::from(head.EventsLost) + u64::from(head.RealTimeBuffersLost))
    }
}

impl Drop for EventSession {
    fn drop(&mut self) {
        let mut properties = Properties::own();
        // SAFETY: this is the open session, and `properties` states its size.
        unsafe {
            ControlTraceW(
                CONTROLTRACE_HANDLE { Value: self.handle },
                std::ptr::null(),
                &raw mut properties.head,
                EVENT_TRACE_CONTROL_STOP,
            )
        };
    }
}

/// Ends the sessions of laggards that are gone.
fn end_left() {
    let mut sessions: Vec<Properties> = (0..MAX_SESSIONS).map(|_| Properties::empty()).collect();
    let mut places: Vec<*mut EVENT_TRACE_PROPERTIES> = sessions
        .iter_mut()
        .map(|session| &raw mut session.head)
        .collect();
    let mut count = 0;
    // SAFETY: each element is valid for writes and states its size.
    let result = unsafe {
        QueryAllTracesW(
            places.as_mut_ptr(),
            host::size(MAX_SESSIONS),
            &raw mut count,
        )
    };
    // If there are more sessions, the first ones are reported.
    if result != 0 && result != ERROR_MORE_DATA {
        return;
    }
    for session in sessions.iter().take(MAX_SESSIONS.min(count as usize)) {
        let end = session.name.iter().position(|unit| *unit == 0);
        let name = &session.name[..end.unwrap_or(MAX_NAME_UNITS - 1)];
        let session_owner = owner(&String::from_utf16_lossy(name));
        if session_owner.is_some_and(|(process, created)| is_gone(process, created)) {
            let mut properties = Properties::empty();
            // SAFETY: no handle, but a name that ends in a NUL; `properties` states its size.
            unsafe {
                ControlTraceW(
                    CONTROLTRACE_HANDLE::default(),
                    session.name.as_ptr(),
                    &raw mut properties.head,
                    EVENT_TRACE_CONTROL_STOP,
                )
            };
        }
    }
}

/// Returns the session name of a process that was created at this time.
fn name(process: u32, created: u64) -> String {
    format!("{NAME_PREFIX}{process}-{created}")
}

/// Returns the process whose session has this name, and its creation time; `None` if the session
/// is not laggard's.
fn owner(name: &str) -> Option<(u32, u64)> {
    let (process, created) = name.strip_prefix(NAME_PREFIX)?.split_once('-')?;
    Some((process.parse().ok()?, created.parse().ok()?))
}

/// Returns whether the process with this PID and creation time has ended. A process that cannot
/// be examined counts as running.
fn is_gone(process: u32, created: u64) -> bool {
    // SAFETY: the call does not take pointers.
    let handle = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, process) };
    if handle.is_null() {
        // SAFETY: without arguments.
        return unsafe { GetLastError() } == ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the handle is open, and nothing else owns it.
    let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
    // A killed process can be examined while another program has a handle of it.
    creation(&handle).is_some_and(|(its, has_ended)| its != created || has_ended)
}

fn own_creation() -> u64 {
    // SAFETY: the handle of this process is always open, and nothing else owns its copy.
    let own = unsafe { BorrowedHandle::borrow_raw(GetCurrentProcess()) };
    let own = own.try_clone_to_owned().ok();
    own.and_then(|own| creation(&own))
        .map_or(0, |(created, _)| created)
}

/// Returns the creation time of a process in 100 ns since 1601, and whether it has ended.
fn creation(process: &OwnedHandle) -> Option<(u64, bool)> {
    let [mut created, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: the handle is open, and all pointers are valid for writes.
    let result = unsafe {
        GetProcessTimes(
            process.as_raw_handle(),
            &raw mut created,
            &raw mut ended,
            &raw mut kernel,
            &raw mut user,
        )
    };
    let mut code = 0;
    // SAFETY: the handle is open, and `code` is valid for writes.
    let result_of_exit_code = unsafe { GetExitCodeProcess(process.as_raw_handle(), &raw mut code) };
    let created_at = u64::from(created.dwHighDateTime) << 32 | u64::from(created.dwLowDateTime);
    (result != 0 && result_of_exit_code != 0)
        .then_some((created_at, code != STILL_ACTIVE.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use std::os::windows::io::AsHandle as _;

    use super::*;

    #[test]
    fn session_is_laggards_by_its_name_and_stale_if_its_process_is_gone() {
        let own = (std::process::id(), own_creation());
        assert_eq!(owner(&name(own.0, own.1)), Some(own));
        assert_eq!(owner("laggard-12"), None);
        assert_eq!(owner("NT Kernel Logger"), None);
        assert!(!is_gone(own.0, own.1));
        assert!(
            is_gone(own.0, own.1 + 1),
            "of an earlier process with this PID"
        );
        // PIDs are multiples of four.
        assert!(is_gone(0x7fff_fff3, own.1));
    }

    #[test]
    fn killed_process_is_gone_even_if_a_handle_of_it_is_open() {
        let mut child = std::process::Command::new("cmd")
            .args(["/c", "pause"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let handle = child.as_handle().try_clone_to_owned().unwrap();
        let (created, has_ended) = creation(&handle).unwrap();
        assert!(!has_ended);
        assert!(!is_gone(child.id(), created));

        child.kill().unwrap();
        child.wait().unwrap();

        assert!(is_gone(child.id(), created));
    }
}
