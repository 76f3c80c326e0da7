//! Reader of a session: a thread in Windows' code that delivers one event after the other.

use std::slice;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use laggard_etl::{EventName, KernelLog, PointerWidth, ProviderId, TraceEvent};
use windows_sys::Win32::Foundation::GetLastError;
use windows_sys::Win32::System::Diagnostics::Etw::{
    CloseTrace, EVENT_HEADER_FLAG_32_BIT_HEADER, EVENT_HEADER_FLAG_PROCESSOR_INDEX, EVENT_RECORD,
    EVENT_TRACE_LOGFILEW, OpenTraceW, PROCESS_TRACE_MODE_EVENT_RECORD,
    PROCESS_TRACE_MODE_RAW_TIMESTAMP, PROCESS_TRACE_MODE_REAL_TIME, PROCESSTRACE_HANDLE,
    ProcessTrace,
};
use windows_sys::core::GUID;

use super::super::priority;
use super::NoEvents;
use super::session::EventSession;

/// `INVALID_PROCESSTRACE_HANDLE`.
const INVALID: u64 = u64::MAX;

/// Session that is being read.
#[derive(Debug)]
pub(super) struct Consumer {
    /// Value of its `PROCESSTRACE_HANDLE`.
    trace: u64,
    thread: Option<JoinHandle<()>>,
    /// Log that the thread writes to, which must outlive the thread.
    _log: Arc<Mutex<KernelLog>>,
}

impl Consumer {
    /// Starts to store the events of `session` in `log`.
    pub(super) fn begin(
        session: &EventSession,
        log: Arc<Mutex<KernelLog>>,
    ) -> Result<Self, NoEvents> {
        let trace = open(session, Arc::as_ptr(&log).cast_mut())?;
        let thread = std::thread::Builder::new()
            .name("laggard/events".into())
            .spawn(move || {
                priority::give_way();
                let trace = PROCESSTRACE_HANDLE { Value: trace };
                // SAFETY: the trace is open; null means no bounds. The call returns when the
                // session has ended or the trace is closed.
                unsafe { ProcessTrace(&raw const trace, 1, std::ptr::null(), std::ptr::null()) };
            });
        let mut consumer = Self {
            trace,
            thread: None,
            _log: log,
        };
        consumer.thread = Some(thread.map_err(|_| NoEvents::NoThread)?);
        Ok(consumer)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Consumer {
    /// No callback runs after the thread has ended.
    fn drop(&mut self) {
        // SAFETY: the trace is open, and closed once. If it is being read, reading ends.
        unsafe { CloseTrace(PROCESSTRACE_HANDLE { Value: self.trace }) };
        if let Some(thread) = self.thread.take() {
            // The thread does not return a result, and Windows' code does not panic.
            let _ = thread.join();
        }
    }
}

/// Checks whether `session` can be read.
pub(super) fn try_open(session: &EventSession) -> Result<(), NoEvents> {
    let trace = open(session, std::ptr::null_mut())?;
    // SAFETY: the trace is open, and closed once; it was not being read.
    unsafe { CloseTrace(PROCESSTRACE_HANDLE { Value: trace }) };
    Ok(())
}

/// Returns the value of a handle whose callback receives `context`.
fn open(session: &EventSession, context: *mut Mutex<KernelLog>) -> Result<u64, NoEvents> {
    let mut log = EVENT_TRACE_LOGFILEW {
        LoggerName: session.name().as_ptr().cast_mut(),
        Context: context.cast(),
        ..EVENT_TRACE_LOGFILEW::default()
    };
    log.Anonymous1.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME
        | PROCESS_TRACE_MODE_EVENT_RECORD
        | PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    log.Anonymous2.EventRecordCallback = Some(take);
    // SAFETY: `log` is valid, and its name ends in a NUL.
    let (opened, error) = unsafe { (OpenTraceW(&raw mut log), GetLastError()) };
    match opened.Value {
        INVALID => Err(NoEvents::Unreadable(error)),
        value => Ok(value),
    }
}

/// Stores an event.
unsafe extern "system" fn take(record: *mut EVENT_RECORD) {
    // SAFETY: Windows passes an event that is valid during the call.
    let Some(record) = (unsafe { record.as_ref() }) else {
        return;
    };
    // SAFETY: this is the context of `open`: a log that its `Consumer` keeps until no callback
    // runs any more, or null.
    let Some(log) = (unsafe { record.UserContext.cast::<Mutex<KernelLog>>().as_ref() }) else {
        return;
    };
    let payload = if record.UserData.is_null() {
        &[][..]
    } else {
        // SAFETY: this number of bytes is valid during the call.
        unsafe { slice::from_raw_parts(record.UserData.cast(), usize::from(record.UserDataLength)) }
    };
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    log.add(&event(record, payload));
}

fn event<'a>(record: &EVENT_RECORD, payload: &'a [u8]) -> TraceEvent<'a> {
    let header = &record.EventHeader;
    let is_32_bit = u32::from(header.Flags) & EVENT_HEADER_FLAG_32_BIT_HEADER != 0;
    TraceEvent {
        name: EventName::of_class(provider(&header.ProviderId), header.EventDescriptor.Opcode),
        version: header.EventDescriptor.Version,
        cpu: cpu(record),
        ticks: header.TimeStamp,
        thread: (header.ThreadId != u32::MAX).then_some(header.ThreadId),
        pointers: if is_32_bit {
            PointerWidth::Four
        } else {
            PointerWidth::Eight
        },
        payload,
    }
}

/// Returns the CPU that wrote the event. The second byte has another meaning unless the event says
/// that it belongs to the number.
fn cpu(record: &EVENT_RECORD) -> u16 {
    let is_wide = u32::from(record.EventHeader.Flags) & EVENT_HEADER_FLAG_PROCESSOR_INDEX != 0;
    let context = &record.BufferContext.Anonymous;
    // SAFETY: both are numbers in the same bytes, and every value is valid.
    unsafe {
        if is_wide {
            context.ProcessorIndex
        } else {
            u16::from(context.Anonymous.ProcessorNumber)
        }
    }
}

fn provider(guid: &GUID) -> ProviderId {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&guid.data1.to_le_bytes());
    bytes[4..6].copy_from_slice(&guid.data2.to_le_bytes());
    bytes[6..8].copy_from_slice(&guid.data3.to_le_bytes());
    bytes[8..].copy_from_slice(&guid.data4);
    ProviderId(bytes)
}

#[cfg(test)]
mod tests {
    use laggard_etl::LogPlan;
    use laggard_made::trace::MadeEvent;
    use laggard_model::{Nanos, Tid};
    use windows_sys::Win32::System::Diagnostics::Etw::{
        ETW_BUFFER_CONTEXT, ETW_BUFFER_CONTEXT_0_0, ImageLoadGuid, PageFaultGuid, PerfInfoGuid,
        ProcessGuid, ThreadGuid,
    };

    use super::*;

    /// Returns a record as Windows passes it.
    fn record(class: GUID, made: &mut MadeEvent, log: &Mutex<KernelLog>) -> EVENT_RECORD {
        let mut record = EVENT_RECORD {
            UserDataLength: u16::try_from(made.payload.len()).unwrap(),
            UserData: made.payload.as_mut_ptr().cast(),
            UserContext: std::ptr::from_ref(log).cast_mut().cast(),
            BufferContext: ETW_BUFFER_CONTEXT::default(),
            ..EVENT_RECORD::default()
        };
        record.BufferContext.Anonymous.Anonymous = ETW_BUFFER_CONTEXT_0_0 {
            ProcessorNumber: 1,
            Alignment: 8,
        };
        record.EventHeader.ProviderId = class;
        record.EventHeader.TimeStamp = made.ticks;
        record.EventHeader.EventDescriptor.Opcode = made.opcode;
        record.EventHeader.EventDescriptor.Version = made.version;
        record
    }

    #[test]
    fn event_from_windows_is_stored_like_an_event_from_a_file() {
        let log = Mutex::new(KernelLog::new(LogPlan {
            entries: 100,
            sampled: None,
            clock: Nanos::from_us,
        }));
        log.lock().unwrap().watch([Tid(42)]);
        for (class, mut made) in [
            (ProcessGuid, MadeEvent::process(1, 7, b"chrome.exe")),
            (ThreadGuid, MadeEvent::thread(3, 1, 7, 77)),
            (ThreadGuid, MadeEvent::switch(100, 0, 77, 8)),
            (ThreadGuid, MadeEvent::ready(1_010, 42)),
            (PerfInfoGuid, MadeEvent::dpc(68, 1_900, 1_100, 16)),
            (ThreadGuid, MadeEvent::switch(1_900, 77, 42, 24)),
        ] {
            let mut record = record(class, &mut made, &log);
            // SAFETY: the record and the memory that it points to are valid during the call.
            unsafe { take(&raw mut record) };
        }

        let mut log = log.into_inner().unwrap();
        let path = log.way(Tid(42), Nanos::from_us(1_000), Nanos::from_us(2_000));
        assert_eq!(path.ready, Some((Nanos::from_us(1_010), 1)));
        assert_eq!(path.ran, Some(Nanos::from_us(1_900)));
        let evidence = log.evidence(1, Nanos::from_us(1_000), Nanos::from_us(2_000));
        assert_eq!(evidence.events.len(), 4, "{:?}", evidence.events);
        assert_eq!(log.unreadable(), 0);
    }

    #[test]
    fn cpu_above_255_has_two_bytes_if_the_event_says_so() {
        let mut record = EVENT_RECORD::default();
        record.BufferContext.Anonymous.ProcessorIndex = 0x0102;
        assert_eq!(cpu(&record), 2);
        record.EventHeader.Flags = u16::try_from(EVENT_HEADER_FLAG_PROCESSOR_INDEX).unwrap();
        assert_eq!(cpu(&record), 0x0102);
    }

    #[test]
    fn call_without_event_log_or_data_does_nothing() {
        let mut record = EVENT_RECORD::default();
        // SAFETY: null, and a record whose pointers are null.
        unsafe {
            take(std::ptr::null_mut());
            take(&raw mut record);
        }
    }

    #[test]
    fn event_class_is_the_group_in_the_kernels_files() {
        for (class, group) in [
            (PageFaultGuid, 2),
            (ProcessGuid, 3),
            (ThreadGuid, 5),
            (PerfInfoGuid, 15),
            (ImageLoadGuid, 20),
        ] {
            let name = EventName::of_class(provider(&class), 9);
            assert_eq!(name, EventName::Kernel { group, opcode: 9 });
        }
    }
}
