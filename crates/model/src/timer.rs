//! Timers: the calls that a program uses to request a later wakeup, and their measurements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::by_name::by_name;
use crate::{Absence, Nanos, Service, nearest};

const NANOSECOND: Nanos = Nanos::from_ns(1);
const MICROSECOND: Nanos = Nanos::from_us(1);
const MILLISECOND: Nanos = Nanos::from_ms(1);
const TICK_OF_WINDOWS: Nanos = Nanos::from_ns(100);

/// Defines the timers from rows: variant, name, unit of its times, and call.
macro_rules! timers {
    ($($timer:ident, $name:literal, $unit:ident, $about:literal;)*) => {
        /// Call that waits until a time or for a time.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum TimerApi {
            $(#[doc = concat!("`", $about, "`")] $timer,)*
        }

        impl TimerApi {
            /// All timers, including timers of other systems, in display order.
            pub const ALL: [Self; 43] = [$(Self::$timer,)*];

            /// Returns the name, which `--api` takes.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$timer => $name,)*
                }
            }

            /// Returns a description of the call.
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$timer => $about,)*
                }
            }

            /// Returns the unit of its times. A program with a finer time truncates it.
            pub const fn unit(self) -> Nanos {
                match self {
                    $(Self::$timer => $unit,)*
                }
            }
        }
    };
}

timers! {
    ClockNanosleepAbs, "clock_nanosleep-abs", NANOSECOND, "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME)";
    ClockNanosleepRealtime, "nanosleep-realtime", NANOSECOND, "clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME)";
    ClockNanosleepBoottime, "nanosleep-boottime", NANOSECOND, "clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME)";
    ClockNanosleepTai, "nanosleep-tai", NANOSECOND, "clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME)";
    ClockNanosleep, "clock_nanosleep", NANOSECOND, "clock_nanosleep(CLOCK_MONOTONIC) for a time";
    Usleep, "usleep", MICROSECOND, "usleep";
    TimerfdAbs, "timerfd-abs", NANOSECOND, "timerfd set to a time of CLOCK_MONOTONIC";
    Timerfd, "timerfd", NANOSECOND, "timerfd with an interval, by CLOCK_MONOTONIC";
    TimerCreate, "timer_create", NANOSECOND, "timer_create with an interval; its signal awaited";
    TimerCreateThread, "timer_create-thread", NANOSECOND, "timer_create with an interval; its function called in a thread (SIGEV_THREAD)";
    Setitimer, "setitimer", MICROSECOND, "setitimer(ITIMER_REAL) with an interval; SIGALRM awaited";
    SetitimerVirtual, "setitimer-virtual", MICROSECOND, "setitimer(ITIMER_VIRTUAL) each time; the thread computes until SIGVTALRM";
    SetitimerProf, "setitimer-prof", MICROSECOND, "setitimer(ITIMER_PROF) each time; the thread computes until SIGPROF";
    Poll, "poll", MILLISECOND, "poll without descriptors, in whole milliseconds";
    Ppoll, "ppoll", NANOSECOND, "ppoll without descriptors";
    Select, "select", MICROSECOND, "select without descriptors";
    Pselect, "pselect", NANOSECOND, "pselect without descriptors";
    EpollWait, "epoll_wait", MILLISECOND, "epoll_wait without events, in whole milliseconds";
    EpollPwait2, "epoll_pwait2", NANOSECOND, "epoll_pwait2 without events (Linux 5.11)";
    Futex, "futex", NANOSECOND, "futex(FUTEX_WAIT) for a time";
    SemTimedwait, "sem_timedwait", NANOSECOND, "sem_timedwait, by CLOCK_REALTIME";
    CondTimedwait, "cond_timedwait", NANOSECOND, "pthread_cond_timedwait, by CLOCK_REALTIME (its default)";
    MutexTimedlock, "mutex_timedlock", NANOSECOND, "pthread_mutex_timedlock, by CLOCK_REALTIME";
    Sigtimedwait, "sigtimedwait", NANOSECOND, "sigtimedwait for a signal that does not come";
    SoRcvtimeo, "so_rcvtimeo", MICROSECOND, "recv on a socket with SO_RCVTIMEO";
    MqTimedreceive, "mq_timedreceive", NANOSECOND, "mq_timedreceive from an empty queue, by CLOCK_REALTIME";
    Semtimedop, "semtimedop", NANOSECOND, "semtimedop on a System V semaphore";
    IoUring, "io_uring", NANOSECOND, "io_uring with a timeout (Linux 5.4)";
    IoUringMultishot, "io_uring-multishot", NANOSECOND, "io_uring with a timeout that expires again and again (Linux 6.4)";
    TickRelative, "tick-relative", NANOSECOND, "wait for a time, on an injected tick of 976.5625 us";
    TickAbsolute, "tick-absolute", NANOSECOND, "wait until a time, on an injected tick of 976.5625 us";
    Sleep, "Sleep", MILLISECOND, "Sleep, in whole milliseconds";
    WaitForSingleObject, "WaitForSingleObject", MILLISECOND, "WaitForSingleObject of an event that is never set, in whole milliseconds";
    SleepConditionVariable, "SleepConditionVariable", MILLISECOND, "SleepConditionVariableSRW that is never woken, in whole milliseconds";
    WinsockSelect, "winsock-select", MICROSECOND, "select of a socket that never receives data";
    WaitableTimerAbs, "WaitableTimer-abs", TICK_OF_WINDOWS, "SetWaitableTimer to a time of the system clock";
    WaitableTimer, "WaitableTimer", TICK_OF_WINDOWS, "SetWaitableTimer for a time";
    WaitableTimerPeriodic, "WaitableTimer-periodic", TICK_OF_WINDOWS, "SetWaitableTimer with a period of whole milliseconds";
    HighResTimer, "HighResTimer", TICK_OF_WINDOWS, "SetWaitableTimer for a time, with CREATE_WAITABLE_TIMER_HIGH_RESOLUTION (Windows 10 1803)";
    HighResTimerPeriodic, "HighResTimer-periodic", TICK_OF_WINDOWS, "SetWaitableTimer with a period, with CREATE_WAITABLE_TIMER_HIGH_RESOLUTION (Windows 10 1803)";
    TimeSetEvent, "timeSetEvent", MILLISECOND, "timeSetEvent, resolution 0; its function called in a thread of winmm";
    TimerQueue, "CreateTimerQueueTimer", MILLISECOND, "CreateTimerQueueTimer; its function called in the thread of the timer queue";
    ThreadpoolTimer, "SetThreadpoolTimer", TICK_OF_WINDOWS, "SetThreadpoolTimer with window 0; its function called in the thread pool";
}

impl TimerApi {
    /// Number of Linux timers in [`Self::ALL`]; Windows timers follow.
    const OF_LINUX: usize = 31;

    /// Timers of this system, in display order.
    pub const HERE: &'static [Self] = {
        let timers: &'static [Self] = &Self::ALL;
        let (of_linux, of_windows) = timers.split_at(Self::OF_LINUX);
        if cfg!(windows) { of_windows } else { of_linux }
    };

    /// Returns whether it has an injected fault, and is tested only if it is named.
    pub const fn is_injected(self) -> bool {
        matches!(self, Self::TickRelative | Self::TickAbsolute)
    }

    /// Returns the unit of its periods, if it has one. Other periods are not possible.
    pub const fn period_unit(self) -> Option<Nanos> {
        match self {
            Self::WaitableTimerPeriodic
            | Self::HighResTimerPeriodic
            | Self::TimeSetEvent
            | Self::TimerQueue
            | Self::ThreadpoolTimer => Some(MILLISECOND),
            _ => None,
        }
    }

    /// Returns whether its expiries are times that do not depend on the service of an
    /// earlier one. A wait for a duration starts with its call.
    pub const fn keeps_time(self) -> bool {
        matches!(
            self,
            Self::ClockNanosleepAbs
                | Self::ClockNanosleepRealtime
                | Self::ClockNanosleepBoottime
                | Self::ClockNanosleepTai
                | Self::TimerfdAbs
                | Self::Timerfd
                | Self::TimerCreate
                | Self::TimerCreateThread
                | Self::Setitimer
                | Self::TickAbsolute
                | Self::WaitableTimerAbs
                | Self::WaitableTimerPeriodic
                | Self::HighResTimerPeriodic
                | Self::TimeSetEvent
                | Self::TimerQueue
                | Self::ThreadpoolTimer
        )
    }

    /// Returns whether it continues to expire without a wait, and wakes the waiting
    /// thread itself: only then can that thread delay it.
    pub const fn goes_on(self) -> bool {
        matches!(
            self,
            Self::Timerfd
                | Self::TimerCreate
                | Self::Setitimer
                | Self::IoUringMultishot
                | Self::WaitableTimerPeriodic
                | Self::HighResTimerPeriodic
        )
    }

    /// Returns whether the system calls a function in a separate thread, also for
    /// expiries that passed in a stall.
    pub const fn calls_back(self) -> bool {
        matches!(
            self,
            Self::TimeSetEvent | Self::TimerQueue | Self::ThreadpoolTimer
        )
    }

    /// Returns whether it counts CPU time: it stands still while the process does not
    /// run.
    pub const fn counts_cpu_time(self) -> bool {
        matches!(self, Self::SetitimerVirtual | Self::SetitimerProf)
    }
}

by_name!(
    TimerApi,
    "Call that waits until a time or for a time.",
    unknown: UnknownTimer
);

/// Unknown timer. The error lists the timers of this system.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{name}` is not a known timer; choose from {}{}", names().join(", "), nearest(name, &names()))]
pub struct UnknownTimer {
    /// Name as typed.
    pub name: String,
}

/// Returns the names of this system's timers.
fn names() -> Vec<&'static str> {
    TimerApi::HERE.iter().map(|api| api.name()).collect()
}

/// Measurement of one timer with one period and service.
#[derive(Clone, Debug, PartialEq)]
pub struct TimerRun {
    /// Timer.
    pub api: TimerApi,
    /// Service of the thread: `fifo:N` or `other`.
    pub service: Service,
    /// Requested period.
    pub period: Nanos,
    /// Reason why it is not available here, or was not measured.
    pub absence: Option<Absence>,
    /// Timer slack that the system may use (`PR_GET_TIMERSLACK`). Zero for a real-time
    /// thread.
    pub allowed_slack: Nanos,
    /// Repeated waits for the same period, in order.
    pub periodic: Vec<PeriodicWait>,
    /// Repeated pauses of the waits for several expiries. Empty if the timer does not
    /// continue without a wait, or time ran out.
    pub held_off: Vec<HeldOff>,
    /// Waits of 1 to 3 ms from random times, in order.
    pub single: Vec<SingleWait>,
    /// Number of omitted waits, because a signal ended them, or laggard was stopped.
    pub left_out: u64,
}

/// One of many waits for the same period.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeriodicWait {
    /// Due time.
    pub due: Nanos,
    /// Time when the thread ran again.
    pub woke: Nanos,
    /// Whether it directly followed the previous wait.
    pub follows: bool,
}

/// Delivery of a free-running timer after a pause of the waits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeldOff {
    /// Time after the last served expiry, when waiting stopped.
    pub from: Nanos,
    /// Time when waiting resumed.
    pub back: Nanos,
    /// Times when the following waits ended, in order.
    pub woke: Vec<Nanos>,
    /// Number of expiries that these waits served, according to the system; `None` if
    /// it does not report it.
    pub told: Option<u64>,
}

/// Wait that differs from the previous one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SingleWait {
    /// Requested time.
    pub asked: Nanos,
    /// Time of the call.
    pub called: Nanos,
    /// Time when the thread ran again.
    pub woke: Nanos,
    /// Whether no slack was allowed for this wait.
    pub is_tight: bool,
    /// Latency of the same thread's sleep until a time, just before, without slack: the
    /// machine's best.
    pub reference_late: Nanos,
}

/// Clock of the system: its stated and its measured properties.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ClockSeen {
    /// Name.
    pub name: String,
    /// Stated step (`clock_getres`; on Windows its frequency or increment).
    pub stated_ns: Option<Nanos>,
    /// Smallest step in repeated readings. Absent if it did not advance.
    pub step_ns: Option<Nanos>,
    /// Whether a thread can sleep by it.
    pub sleeps: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_found_by_name_in_any_spelling() {
        for api in TimerApi::ALL {
            assert_eq!(api.name().parse(), Ok(api));
            assert_eq!(api.name().to_uppercase().parse(), Ok(api));
        }
    }

    #[test]
    fn unknown_timer_is_refused_with_the_known_ones() {
        let err = "nanonap".parse::<TimerApi>().unwrap_err().to_string();

        let (first, last) = if cfg!(windows) {
            ("Sleep", "SetThreadpoolTimer")
        } else {
            ("clock_nanosleep-abs", "tick-absolute")
        };
        let begin = format!("`nanonap` is not a known timer; choose from {first}, ");
        assert!(err.starts_with(&begin), "{err}");
        assert!(err.ends_with(&format!(", {last}")), "{err}");
    }

    #[test]
    fn each_timer_belongs_to_one_system() {
        let (of_linux, of_windows) = TimerApi::ALL.split_at(TimerApi::OF_LINUX);

        assert_eq!(of_linux.last(), Some(&TimerApi::TickAbsolute));
        assert_eq!(of_windows.first(), Some(&TimerApi::Sleep));
    }
}
