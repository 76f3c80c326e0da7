//! What this program's threads have used of the CPUs so far, asked by them, too: no lock,
//! no allocation.

use laggard_model::Nanos;

/// CPU time of all threads of this program.
#[cfg(target_os = "linux")]
pub(crate) fn used() -> Nanos {
    use nix::time::{ClockId, clock_gettime};
    // It exists on every Linux.
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Nanos::ZERO, |time| {
        Nanos::from_secs(time.tv_sec().cast_unsigned())
            + Nanos::from_ns(time.tv_nsec().cast_unsigned())
    })
}

/// CPU time of all threads of this program. The system counts it by the tick.
#[cfg(windows)]
pub(crate) fn used() -> Nanos {
    use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes};
    times(|begin, end, kernel, user| {
        // SAFETY: all are valid for writes. Where the call fails they stay zero.
        unsafe { GetProcessTimes(GetCurrentProcess(), begin, end, kernel, user) };
    })
}

#[cfg(windows)]
use windows_sys::Win32::Foundation::FILETIME;

/// The time in the kernel and that in user space, as `read` fills in begin, end and
/// these two.
#[cfg(windows)]
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
