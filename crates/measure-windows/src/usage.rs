//! Resource usage of this process.

use std::os::windows::io::{AsHandle, AsRawHandle as _};

use laggard_model::Nanos;
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetThreadTimes};

use crate::used::{times, used};

/// Resource usage of the threads of this process at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) at: Nanos,
    pub(super) cpu: Nanos,
    /// CPU time of measuring threads.
    pub(super) measuring_cpu: Nanos,
    /// Maximum resident size so far.
    pub(super) resident_bytes: u64,
}

impl Usage {
    /// Returns the usage at `at`, which is now. `measuring_cpu` is the time of measuring threads.
    pub(super) fn at(at: Nanos, measuring_cpu: Nanos) -> Self {
        Self {
            at,
            cpu: used(),
            measuring_cpu,
            resident_bytes: resident(),
        }
    }
}

/// Returns the CPU time of a thread, also after it has ended.
pub(super) fn cpu_of(thread: &impl AsHandle) -> Nanos {
    let handle = thread.as_handle().as_raw_handle();
    times(|begin, end, kernel, user| {
        // SAFETY: the handle is open, and all pointers are valid for writes. If the call fails
        // they stay zero.
        unsafe { GetThreadTimes(handle, begin, end, kernel, user) };
    })
}

fn resident() -> u64 {
    let mut counters = PROCESS_MEMORY_COUNTERS::default();
    let size = u32::try_from(size_of::<PROCESS_MEMORY_COUNTERS>()).unwrap_or(0);
    counters.cb = size;
    // SAFETY: `counters` is valid for writes of this number of bytes. If the call fails it stays
    // zero.
    unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, size) };
    counters.PeakWorkingSetSize as u64
}
