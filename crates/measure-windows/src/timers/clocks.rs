//! Clocks: their stated resolution and their behaviour.

use laggard_model::{ClockSeen, Nanos};
use windows_sys::Wdk::System::SystemInformation::NtQueryTimerResolution;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::SystemInformation::{
    GetSystemTimeAdjustment, GetSystemTimeAsFileTime, GetSystemTimePreciseAsFileTime,
    GetTickCount64,
};

use super::super::{clock, procedure};
use laggard_measure::min_step;

/// Unit of system and interrupt times.
const UNIT: Nanos = Nanos::from_ns(100);

/// Clock of the system.
struct WindowsClock {
    name: &'static str,
    /// Stated step of the clock.
    stated: fn() -> Option<Nanos>,
    read: fn() -> Option<Nanos>,
    /// Whether a thread can wait for a time of this clock.
    sleeps: bool,
}

static CLOCKS: [WindowsClock; 6] = [
    WindowsClock {
        name: "QueryPerformanceCounter",
        stated: || {
            Some(Nanos::from_ns(
                1_000_000_000_u64.div_ceil(clock::frequency()),
            ))
        },
        read: || Some(clock::now()),
        sleeps: false,
    },
    WindowsClock {
        name: "GetSystemTimePreciseAsFileTime",
        stated: || Some(UNIT),
        read: || Some(system_time()),
        sleeps: false,
    },
    // Waitable timers with absolute times use this clock.
    WindowsClock {
        name: "GetSystemTimeAsFileTime",
        stated: increment,
        // SAFETY: `filled` passes a pointer that is valid for writes.
        read: || Some(filled(|time| unsafe { GetSystemTimeAsFileTime(time) })),
        sleeps: true,
    },
    WindowsClock {
        name: "GetTickCount64",
        stated: increment,
        // SAFETY: the call does not take pointers.
        read: || Some(Nanos::from_ms(unsafe { GetTickCount64() })),
        sleeps: false,
    },
    // Waits with relative times use this clock.
    WindowsClock {
        name: "QueryInterruptTime",
        stated: resolution,
        read: || interrupt_time(b"QueryInterruptTime\0"),
        sleeps: true,
    },
    WindowsClock {
        name: "QueryInterruptTimePrecise",
        stated: || Some(UNIT),
        read: || interrupt_time(b"QueryInterruptTimePrecise\0"),
        sleeps: false,
    },
];

/// Reads the available clocks in turn, each repeatedly for 40 ms.
pub fn clocks() -> Vec<ClockSeen> {
    let here = CLOCKS.iter().filter(|clock| (clock.read)().is_some());
    let readings = here.map(|clock| ClockSeen {
        name: clock.name.into(),
        stated_ns: (clock.stated)(),
        step_ns: min_step(clock::now, clock.read),
        sleeps: clock.sleeps,
    });
    readings.collect()
}

/// Returns the system time with the highest resolution, since 1601.
pub(super) fn system_time() -> Nanos {
    // SAFETY: `filled` passes a pointer that is valid for writes.
    filled(|time| unsafe { GetSystemTimePreciseAsFileTime(time) })
}

fn filled(read: impl FnOnce(*mut FILETIME)) -> Nanos {
    let mut time = FILETIME::default();
    read(&raw mut time);
    UNIT * (u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime))
}

/// Returns the step of the system time per tick, as the system reports it.
fn increment() -> Option<Nanos> {
    let (mut adjustment, mut increment, mut is_disabled) = (0, 0, 0);
    // SAFETY: all pointers are valid for writes.
    let result = unsafe {
        GetSystemTimeAdjustment(
            &raw mut adjustment,
            &raw mut increment,
            &raw mut is_disabled,
        )
    };
    (result != 0).then(|| UNIT * u64::from(increment))
}

/// Returns the current length of a tick, as the system reports it: programs may request shorter
/// ones.
fn resolution() -> Option<Nanos> {
    tick_lengths().map(|lengths| lengths.now)
}

/// Lengths of a tick of the system's clock, as the system reports them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TickLengths {
    /// Shortest length that a program can request.
    pub(crate) shortest: Nanos,
    /// Length for a program without a request, if the tick is per process.
    pub(crate) longest: Nanos,
    /// Current length in the hardware, for the program that requested the shortest.
    pub(crate) now: Nanos,
}

/// Returns the lengths, or `None` if the system does not report them.
pub(crate) fn tick_lengths() -> Option<TickLengths> {
    let (mut longest, mut shortest, mut now) = (0, 0, 0);
    // SAFETY: all pointers are valid for writes.
    let status =
        unsafe { NtQueryTimerResolution(&raw mut longest, &raw mut shortest, &raw mut now) };
    (status >= 0).then(|| TickLengths {
        shortest: UNIT * u64::from(shortest),
        longest: UNIT * u64::from(longest),
        now: UNIT * u64::from(now),
    })
}

/// Returns the time since boot by the clock of ticks, or `None` if the system lacks this function.
fn interrupt_time(name: &'static [u8]) -> Option<Nanos> {
    let function = procedure::find(b"kernelbase.dll\0", name)?;
    let mut time = 0_u64;
    // SAFETY: both functions with these names take a pointer to a time, which is valid for
    // writes, and return nothing.
    unsafe {
        let function: unsafe extern "system" fn(*mut u64) = std::mem::transmute(function);
        function(&raw mut time);
    }
    Some(UNIT * time)
}
