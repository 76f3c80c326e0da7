//! A session in which the kernel tells what it does.
//!
//! It outlives a program that is killed, so that its name says whose it is: what a
//! program left that is gone is ended by the next.

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

/// Before the number of the process, in a session's name.
const NAME: &str = "laggard-";
/// Of this program's sessions alone; the first number is the process'.
const OWN: GUID = GUID::from_u128(0x0000_0000_93f2_4b61_8c0d_5e2f_a1b7_6c39);
/// The type of a sample among the events of its class.
const SAMPLE: u8 = 46;
/// Time stamps of the performance counter.
const QPC: u32 = 1;
/// A buffer, KiB: what is written before one is full is read after a flush.
const BUFFER: u32 = 64;
/// Buffers, or four for each CPU, and twice as many where that is not enough: at the start
/// every image, process and thread is told before anybody reads.
const BUFFERS: u32 = 128;
/// For as long as nobody flushes, s.
const FLUSH: u32 = 1;
/// Longest name of a session, with its NUL, UTF-16 units (`ETW_MAX_...`: 1,024).
const LONGEST: usize = 1_024;
/// Sessions that Windows has at most.
const MOST: usize = 64;

/// What a session is asked for with, and its name behind it.
#[repr(C)]
struct Properties {
    head: EVENT_TRACE_PROPERTIES,
    name: [u16; LONGEST],
    /// Nothing is written to a file, but other sessions are.
    file: [u16; LONGEST],
}

impl Properties {
    /// Of no session in particular.
    fn empty() -> Self {
        let mut head = EVENT_TRACE_PROPERTIES::default();
        head.Wnode.BufferSize = host::size(mem::size_of::<Self>());
        head.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
        head.LoggerNameOffset = host::size(mem::offset_of!(Self, name));
        head.LogFileNameOffset = host::size(mem::offset_of!(Self, file));
        Self {
            head,
            name: [0; LONGEST],
            file: [0; LONGEST],
        }
    }

    /// Of this process' session.
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

/// A session that was begun; ended when dropped, also by a panic.
#[derive(Debug)]
pub(super) struct EventSession {
    /// The value of its `CONTROLTRACE_HANDLE`.
    handle: u64,
    name: Vec<u16>,
}

impl EventSession {
    /// With samples of what runs, where `samples`.
    pub(super) fn begin(samples: bool) -> Result<Self, NoEvents> {
        end_left();
        let name = name(std::process::id(), own_creation());
        let name: Vec<u16> = name.encode_utf16().chain([0]).collect();
        let processors = host::size(host::processors());
        let mut properties = Properties::own();
        let head = &mut properties.head;
        head.Wnode.ClientContext = QPC;
        head.BufferSize = BUFFER;
        head.MinimumBuffers = BUFFERS.max(processors * 4);
        head.MaximumBuffers = head.MinimumBuffers * 2;
        head.FlushTimer = FLUSH;
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
        // SAFETY: the name ends in a NUL; `properties` says how long it is, with room for
        //         the name.
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

    /// Has each sample followed by its call chain. Where that cannot be had a sample is
    /// the place alone.
    pub(super) fn have_chains(&self) {
        let sample = CLASSIC_EVENT_ID {
            EventGuid: PerfInfoGuid,
            Type: SAMPLE,
            ..CLASSIC_EVENT_ID::default()
        };
        // SAFETY: the session is this one, and `sample` is valid for reads of so many bytes.
        unsafe {
            TraceSetInformation(
                CONTROLTRACE_HANDLE { Value: self.handle },
                TraceStackTracingInfo,
                (&raw const sample).cast(),
                host::size(size_of::<CLASSIC_EVENT_ID>()),
            )
        };
    }

    /// Its name, with a NUL.
    pub(super) fn name(&self) -> &[u16] {
        &self.name
    }

    /// Has what was written by now handed out; how many events found no room so far,
    /// where Windows says so.
    pub(super) fn flush(&self) -> Option<u64> {
        let mut properties = Properties::own();
        // SAFETY: the session is this one, and `properties` says how long it is.
        let result = unsafe {
            ControlTraceW(
                CONTROLTRACE_HANDLE { Value: self.handle },
                std::ptr::null(),
                &raw mut properties.head,
                EVENT_TRACE_CONTROL_FLUSH,
            )
        };
        let head = &properties.head;
        // A buffer that was not handed out had one event at least.
        (result == 0).then(|| u64::from(head.EventsLost) + u64::from(head.RealTimeBuffersLost))
    }
}

impl Drop for EventSession {
    fn drop(&mut self) {
        let mut properties = Properties::own();
        // SAFETY: the session is this one, and `properties` says how long it is.
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
    let mut all: Vec<Properties> = (0..MOST).map(|_| Properties::empty()).collect();
    let mut places: Vec<*mut EVENT_TRACE_PROPERTIES> =
        all.iter_mut().map(|one| &raw mut one.head).collect();
    let mut count = 0;
    // SAFETY: each of so many places is valid for writes, and says how long it is.
    let result = unsafe { QueryAllTracesW(places.as_mut_ptr(), host::size(MOST), &raw mut count) };
    // Of more than there is room for, so many are told.
    if result != 0 && result != ERROR_MORE_DATA {
        return;
    }
    for found in all.iter().take(MOST.min(count as usize)) {
        let end = found.name.iter().position(|unit| *unit == 0);
        let name = &found.name[..end.unwrap_or(LONGEST - 1)];
        let of = owner(&String::from_utf16_lossy(name));
        if of.is_some_and(|(process, created)| is_gone(process, created)) {
            let mut properties = Properties::empty();
            // SAFETY: no handle, but a name that ends in a NUL; `properties` says how long
            //         it is.
            unsafe {
                ControlTraceW(
                    CONTROLTRACE_HANDLE::default(),
                    found.name.as_ptr(),
                    &raw mut properties.head,
                    EVENT_TRACE_CONTROL_STOP,
                )
            };
        }
    }
}

/// The name of the session of a process that was created then.
fn name(process: u32, created: u64) -> String {
    format!("{NAME}{process}-{created}")
}

/// The process whose session has this name, and when that was created; `None`: it is not
/// one of ours.
fn owner(name: &str) -> Option<(u32, u64)> {
    let (process, created) = name.strip_prefix(NAME)?.split_once('-')?;
    Some((process.parse().ok()?, created.parse().ok()?))
}

/// Whether the process of this number that was created then has ended. One that may not
/// be looked at is there.
fn is_gone(process: u32, created: u64) -> bool {
    // SAFETY: takes no pointers.
    let handle = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, process) };
    if handle.is_null() {
        // SAFETY: takes nothing.
        return unsafe { GetLastError() } == ERROR_INVALID_PARAMETER;
    }
    // SAFETY: it is open, and nobody else's.
    let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
    // Who was killed can be looked at for as long as anybody has a handle of it.
    creation(&handle).is_some_and(|(its, has_ended)| its != created || has_ended)
}

fn own_creation() -> u64 {
    // SAFETY: this process' handle is always open, and a copy of it is nobody else's.
    let own = unsafe { BorrowedHandle::borrow_raw(GetCurrentProcess()) };
    let own = own.try_clone_to_owned().ok();
    own.and_then(|own| creation(&own)).map_or(0, |(at, _)| at)
}

/// When a process was created, in 100 ns since 1601, and whether it has ended.
fn creation(process: &OwnedHandle) -> Option<(u64, bool)> {
    let [mut created, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: the handle is open, and all are valid for writes.
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
    let told = unsafe { GetExitCodeProcess(process.as_raw_handle(), &raw mut code) };
    let at = u64::from(created.dwHighDateTime) << 32 | u64::from(created.dwLowDateTime);
    (result != 0 && told != 0).then_some((at, code != STILL_ACTIVE.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use std::os::windows::io::AsHandle as _;

    use super::*;

    #[test]
    fn a_session_is_ours_by_its_name_and_left_where_its_process_is_gone() {
        let own = (std::process::id(), own_creation());
        assert_eq!(owner(&name(own.0, own.1)), Some(own));
        assert_eq!(owner("laggard-12"), None);
        assert_eq!(owner("NT Kernel Logger"), None);
        assert!(!is_gone(own.0, own.1));
        assert!(is_gone(own.0, own.1 + 1), "of one before with its number");
        // Numbers of processes are multiples of four.
        assert!(is_gone(0x7fff_fff3, own.1));
    }

    #[test]
    fn a_process_that_was_killed_is_gone_while_a_handle_of_it_is_open() {
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
