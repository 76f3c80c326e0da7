//! CPU time that the threads of this program have used. Takes no lock and allocates nothing.

use laggard_model::Nanos;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes};

/// CPU time of all threads of this program. The system counts it by the tick.
pub(crate) fn used() -> Nanos {
    times(|begin, end, kernel, user| {
        // SAFETY: all are valid for writes. If the call fails, they stay zero.
        unsafe { GetProcessTimes(GetCurrentProcess(), begin, end, kernel, user) };
    })
}

/// Returns the sum of the times in the kernel and in user space. `read` fills in start, end and
/// these two times.
pub(crate) fn times(
    read: impl FnOnce(*mut FILETIME, *mut FILETIME, *mut FILETIME, *mut FILETIME),
) -> Nanos {
    const UNIT: Nanos = Nanos::from_ns(100);
    let [mut begin, mut end, mut kernel, mut user] = [FILETIME::default(); 4];
    read(&raw mut begin, &raw mut end, &raw mut kernel, &raw mut user);
    let units =
        |time: FILETIME| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    UNIT * (units(kernel) + units(user))
}
