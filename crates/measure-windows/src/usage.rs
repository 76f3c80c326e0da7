//! What this process has used so far.

use std::os::windows::io::{AsHandle, AsRawHandle as _};

use laggard_model::Nanos;
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetThreadTimes};

use crate::used::{times, used};

/// What the threads of this process had used at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsedSoFar {
    pub(super) at: Nanos,
    pub(super) cpu: Nanos,
    /// Of those that measure.
    pub(super) measuring_cpu: Nanos,
    /// The largest resident size until then.
    pub(super) resident_bytes: u64,
}

impl UsedSoFar {
    /// What has been used by now, as of `at`; by those that measure: `measuring_cpu`.
    pub(super) fn at(at: Nanos, measuring_cpu: Nanos) -> Self {
        Self {
            at,
            cpu: used(),
            measuring_cpu,
            resident_bytes: resident(),
        }
    }
}

/// CPU time of a thread, also once it has ended.
pub(super) fn cpu_of(thread: &impl AsHandle) -> Nanos {
    let handle = thread.as_handle().as_raw_handle();
    times(|begin, end, kernel, user| {
        // SAFETY: the handle is open, all are valid for writes. Where the call fails they
        //         stay zero.
        unsafe { GetThreadTimes(handle, begin, end, kernel, user) };
    })
}

fn resident() -> u64 {
    let mut counters = PROCESS_MEMORY_COUNTERS::default();
    let size = u32::try_from(size_of::<PROCESS_MEMORY_COUNTERS>()).unwrap_or(0);
    counters.cb = size;
    // SAFETY: `counters` is valid for writes of so many bytes. Where the call fails it
    //         stays zero.
    unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, size) };
    counters.PeakWorkingSetSize as u64
}
