//! What this process has used so far.

use std::os::windows::io::{AsHandle, AsRawHandle as _};

use laggard_model::Nanos;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes, GetThreadTimes};

/// The unit of the system's times.
const UNIT: Nanos = Nanos::from_ns(100);

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

/// CPU time of all threads of this program. The system counts it by the tick.
pub(crate) fn used() -> Nanos {
    times(|begin, end, kernel, user| {
        // SAFETY: all are valid for writes. Where the call fails they stay zero.
        unsafe { GetProcessTimes(GetCurrentProcess(), begin, end, kernel, user) };
    })
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

/// The time in the kernel and that in user space.
fn times(read: impl FnOnce(*mut FILETIME, *mut FILETIME, *mut FILETIME, *mut FILETIME)) -> Nanos {
    let [mut begin, mut end, mut kernel, mut user] = [FILETIME::default(); 4];
    read(&raw mut begin, &raw mut end, &raw mut kernel, &raw mut user);
    let units =
        |time: FILETIME| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    UNIT * (units(kernel) + units(user))
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
