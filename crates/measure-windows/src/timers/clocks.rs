//! Clocks: what they state of themselves, and what they do.

use laggard_model::{ClockSeen, Nanos};
use windows_sys::Wdk::System::SystemInformation::NtQueryTimerResolution;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::SystemInformation::{
    GetSystemTimeAdjustment, GetSystemTimeAsFileTime, GetSystemTimePreciseAsFileTime,
    GetTickCount64,
};

use super::super::{clock, procedure};
use laggard_measure::least_step;

/// The unit of system and interrupt times.
const UNIT: Nanos = Nanos::from_ns(100);

/// A clock of the system's.
struct WindowsClock {
    name: &'static str,
    /// The step that it states.
    stated: fn() -> Option<Nanos>,
    read: fn() -> Option<Nanos>,
    /// Whether a thread can wait for one of its times.
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
    // Waitable timers are set to instants of this one,
    WindowsClock {
        name: "GetSystemTimeAsFileTime",
        stated: increment,
        // SAFETY: `filled` hands in what is valid for writes.
        read: || Some(filled(|time| unsafe { GetSystemTimeAsFileTime(time) })),
        sleeps: true,
    },
    WindowsClock {
        name: "GetTickCount64",
        stated: increment,
        // SAFETY: takes no pointers.
        read: || Some(Nanos::from_ms(unsafe { GetTickCount64() })),
        sleeps: false,
    },
    // and waits for a time are over by this one.
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

/// The system's clocks, one after the other, as far as it has them; each is read again
/// and again for 40 ms.
pub fn clocks() -> Vec<ClockSeen> {
    let here = CLOCKS.iter().filter(|one| (one.read)().is_some());
    let seen = here.map(|one| ClockSeen {
        name: one.name.into(),
        stated_ns: (one.stated)(),
        step_ns: least_step(clock::now, one.read),
        sleeps: one.sleeps,
    });
    seen.collect()
}

/// The system's time, as precisely as it can be read, from 1601 on.
pub(super) fn system_time() -> Nanos {
    // SAFETY: `filled` hands in what is valid for writes.
    filled(|time| unsafe { GetSystemTimePreciseAsFileTime(time) })
}

fn filled(read: impl FnOnce(*mut FILETIME)) -> Nanos {
    let mut time = FILETIME::default();
    read(&raw mut time);
    UNIT * (u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime))
}

/// By how much the system's time goes on with each tick, by its own word.
fn increment() -> Option<Nanos> {
    let (mut adjustment, mut increment, mut is_disabled) = (0, 0, 0);
    // SAFETY: all are valid for writes.
    let result = unsafe {
        GetSystemTimeAdjustment(
            &raw mut adjustment,
            &raw mut increment,
            &raw mut is_disabled,
        )
    };
    (result != 0).then(|| UNIT * u64::from(increment))
}

/// The length of a tick now, by the system's word: programs ask for shorter ones.
fn resolution() -> Option<Nanos> {
    tick_lengths().map(|lengths| lengths.now)
}

/// How long a tick of the system's clock is, by its own word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TickLengths {
    /// What a program can have.
    pub(crate) shortest: Nanos,
    /// What one has that asks for nothing, where the tick is of each process.
    pub(crate) longest: Nanos,
    /// What the hardware has now, for whoever asked for the shortest.
    pub(crate) now: Nanos,
}

/// None where the system does not tell.
pub(crate) fn tick_lengths() -> Option<TickLengths> {
    let (mut longest, mut shortest, mut now) = (0, 0, 0);
    // SAFETY: all are valid for writes.
    let status =
        unsafe { NtQueryTimerResolution(&raw mut longest, &raw mut shortest, &raw mut now) };
    (status >= 0).then(|| TickLengths {
        shortest: UNIT * u64::from(shortest),
        longest: UNIT * u64::from(longest),
        now: UNIT * u64::from(now),
    })
}

/// The time since the system was started, by the clock of its ticks; absent where the
/// system has no such function.
fn interrupt_time(name: &'static [u8]) -> Option<Nanos> {
    let function = procedure::find(b"kernelbase.dll\0", name)?;
    let mut time = 0_u64;
    // SAFETY: both functions of such a name take a pointer to a time, which is valid for
    //         writes, and return nothing.
    unsafe {
        let function: unsafe extern "system" fn(*mut u64) = std::mem::transmute(function);
        function(&raw mut time);
    }
    Some(UNIT * time)
}
