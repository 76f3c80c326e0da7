//! Timers: the calls with which a program requests a later wakeup, and their
//! measurements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::by_name::by_name;
use crate::{Absence, Nanos, Service, nearest};

/// Call that waits until a time or for a time.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum TimerApi {
    /// `clock_nanosleep` until a time.
    ClockNanosleepAbs,
    /// `clock_nanosleep` until a time of `CLOCK_REALTIME`.
    ClockNanosleepRealtime,
    /// `clock_nanosleep` until a time of `CLOCK_BOOTTIME`.
    ClockNanosleepBoottime,
    /// `clock_nanosleep` until a time of `CLOCK_TAI`.
    ClockNanosleepTai,
    /// `clock_nanosleep` for a duration.
    ClockNanosleep,
    /// `usleep`.
    Usleep,
    /// Timer descriptor set to a time.
    TimerfdAbs,
    /// Periodic timer descriptor.
    Timerfd,
    /// POSIX timer that signals the thread periodically.
    TimerCreate,
    /// POSIX timer that calls a function in a separate thread.
    TimerCreateThread,
    /// `setitimer(ITIMER_REAL)`.
    Setitimer,
    /// `setitimer(ITIMER_VIRTUAL)`.
    SetitimerVirtual,
    /// `setitimer(ITIMER_PROF)`.
    SetitimerProf,
    /// `poll`.
    Poll,
    /// `ppoll`.
    Ppoll,
    /// `select`.
    Select,
    /// `pselect`.
    Pselect,
    /// `epoll_wait`.
    EpollWait,
    /// `epoll_pwait2`.
    EpollPwait2,
    /// `futex(FUTEX_WAIT)`.
    Futex,
    /// `sem_timedwait`.
    SemTimedwait,
    /// `pthread_cond_timedwait`.
    CondTimedwait,
    /// `pthread_mutex_timedlock`.
    MutexTimedlock,
    /// `sigtimedwait`.
    Sigtimedwait,
    /// `recv` on a socket with `SO_RCVTIMEO`.
    SoRcvtimeo,
    /// `mq_timedreceive`.
    MqTimedreceive,
    /// `semtimedop`.
    Semtimedop,
    /// `io_uring` with a timeout.
    IoUring,
    /// `io_uring` with a periodic timeout.
    IoUringMultishot,
    /// `Sleep`.
    Sleep,
    /// `WaitForSingleObject` with a timeout.
    WaitForSingleObject,
    /// `SleepConditionVariableSRW` with a timeout.
    SleepConditionVariable,
    /// `select` of Winsock.
    WinsockSelect,
    /// Waitable timer set to a time.
    WaitableTimerAbs,
    /// Waitable timer set for a duration.
    WaitableTimer,
    /// Periodic waitable timer.
    WaitableTimerPeriodic,
    /// High-resolution waitable timer set for a duration.
    HighResTimer,
    /// Periodic high-resolution waitable timer.
    HighResTimerPeriodic,
    /// Multimedia timer that calls a function.
    TimeSetEvent,
    /// Timer of a timer queue that calls a function.
    TimerQueue,
    /// Timer of the thread pool that calls a function.
    ThreadpoolTimer,
}

impl TimerApi {
    /// Number of Linux timers in [`Self::ALL`]; those of Windows follow.
    const OF_LINUX: usize = 29;

    /// Timers of this system, in display order.
    pub const HERE: &'static [Self] = {
        let timers: &'static [Self] = &Self::ALL;
        let (of_linux, of_windows) = timers.split_at(Self::OF_LINUX);
        if cfg!(windows) { of_windows } else { of_linux }
    };

    /// All timers, including those of other systems, in display order.
    pub const ALL: [Self; 41] = [
        Self::ClockNanosleepAbs,
        Self::ClockNanosleepRealtime,
        Self::ClockNanosleepBoottime,
        Self::ClockNanosleepTai,
        Self::ClockNanosleep,
        Self::Usleep,
        Self::TimerfdAbs,
        Self::Timerfd,
        Self::TimerCreate,
        Self::TimerCreateThread,
        Self::Setitimer,
        Self::SetitimerVirtual,
        Self::SetitimerProf,
        Self::Poll,
        Self::Ppoll,
        Self::Select,
        Self::Pselect,
        Self::EpollWait,
        Self::EpollPwait2,
        Self::Futex,
        Self::SemTimedwait,
        Self::CondTimedwait,
        Self::MutexTimedlock,
        Self::Sigtimedwait,
        Self::SoRcvtimeo,
        Self::MqTimedreceive,
        Self::Semtimedop,
        Self::IoUring,
        Self::IoUringMultishot,
        Self::Sleep,
        Self::WaitForSingleObject,
        Self::SleepConditionVariable,
        Self::WinsockSelect,
        Self::WaitableTimerAbs,
        Self::WaitableTimer,
        Self::WaitableTimerPeriodic,
        Self::HighResTimer,
        Self::HighResTimerPeriodic,
        Self::TimeSetEvent,
        Self::TimerQueue,
        Self::ThreadpoolTimer,
    ];

    /// Returns the name, which `--api` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClockNanosleepAbs => "clock_nanosleep-abs",
            Self::ClockNanosleepRealtime => "nanosleep-realtime",
            Self::ClockNanosleepBoottime => "nanosleep-boottime",
            Self::ClockNanosleepTai => "nanosleep-tai",
            Self::ClockNanosleep => "clock_nanosleep",
            Self::Usleep => "usleep",
            Self::TimerfdAbs => "timerfd-abs",
            Self::Timerfd => "timerfd",
            Self::TimerCreate => "timer_create",
            Self::TimerCreateThread => "timer_create-thread",
            Self::Setitimer => "setitimer",
            Self::SetitimerVirtual => "setitimer-virtual",
            Self::SetitimerProf => "setitimer-prof",
            Self::Poll => "poll",
            Self::Ppoll => "ppoll",
            Self::Select => "select",
            Self::Pselect => "pselect",
            Self::EpollWait => "epoll_wait",
            Self::EpollPwait2 => "epoll_pwait2",
            Self::Futex => "futex",
            Self::SemTimedwait => "sem_timedwait",
            Self::CondTimedwait => "cond_timedwait",
            Self::MutexTimedlock => "mutex_timedlock",
            Self::Sigtimedwait => "sigtimedwait",
            Self::SoRcvtimeo => "so_rcvtimeo",
            Self::MqTimedreceive => "mq_timedreceive",
            Self::Semtimedop => "semtimedop",
            Self::IoUring => "io_uring",
            Self::IoUringMultishot => "io_uring-multishot",
            Self::Sleep => "Sleep",
            Self::WaitForSingleObject => "WaitForSingleObject",
            Self::SleepConditionVariable => "SleepConditionVariable",
            Self::WinsockSelect => "winsock-select",
            Self::WaitableTimerAbs => "WaitableTimer-abs",
            Self::WaitableTimer => "WaitableTimer",
            Self::WaitableTimerPeriodic => "WaitableTimer-periodic",
            Self::HighResTimer => "HighResTimer",
            Self::HighResTimerPeriodic => "HighResTimer-periodic",
            Self::TimeSetEvent => "timeSetEvent",
            Self::TimerQueue => "CreateTimerQueueTimer",
            Self::ThreadpoolTimer => "SetThreadpoolTimer",
        }
    }

    /// Returns a description of the call.
    pub const fn about(self) -> &'static str {
        match self {
            Self::ClockNanosleepAbs => "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME)",
            Self::ClockNanosleepRealtime => "clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME)",
            Self::ClockNanosleepBoottime => "clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME)",
            Self::ClockNanosleepTai => "clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME)",
            Self::ClockNanosleep => "clock_nanosleep(CLOCK_MONOTONIC) for a time",
            Self::Usleep => "usleep",
            Self::TimerfdAbs => "timerfd set to a time of CLOCK_MONOTONIC",
            Self::Timerfd => "timerfd with an interval, by CLOCK_MONOTONIC",
            Self::TimerCreate => "timer_create with an interval; its signal awaited",
            Self::TimerCreateThread => {
                "timer_create with an interval; its function called in a thread (SIGEV_THREAD)"
            }
            Self::Setitimer => "setitimer(ITIMER_REAL) with an interval; SIGALRM awaited",
            Self::SetitimerVirtual => {
                "setitimer(ITIMER_VIRTUAL) each time; the thread computes until SIGVTALRM"
            }
            Self::SetitimerProf => {
                "setitimer(ITIMER_PROF) each time; the thread computes until SIGPROF"
            }
            Self::Poll => "poll of nothing, in whole milliseconds",
            Self::Ppoll => "ppoll of nothing",
            Self::Select => "select of nothing",
            Self::Pselect => "pselect of nothing",
            Self::EpollWait => "epoll_wait for nothing, in whole milliseconds",
            Self::EpollPwait2 => "epoll_pwait2 for nothing (Linux 5.11)",
            Self::Futex => "futex(FUTEX_WAIT) for a time",
            Self::SemTimedwait => "sem_timedwait, by CLOCK_REALTIME",
            Self::CondTimedwait => "pthread_cond_timedwait, by CLOCK_REALTIME (its default)",
            Self::MutexTimedlock => "pthread_mutex_timedlock, by CLOCK_REALTIME",
            Self::Sigtimedwait => "sigtimedwait for a signal that does not come",
            Self::SoRcvtimeo => "recv on a socket with SO_RCVTIMEO",
            Self::MqTimedreceive => "mq_timedreceive from an empty queue, by CLOCK_REALTIME",
            Self::Semtimedop => "semtimedop on a System V semaphore",
            Self::IoUring => "io_uring with a timeout (Linux 5.4)",
            Self::IoUringMultishot => {
                "io_uring with a timeout that expires again and again (Linux 6.4)"
            }
            Self::Sleep => "Sleep, in whole milliseconds",
            Self::WaitForSingleObject => {
                "WaitForSingleObject of an event that is never set, in whole milliseconds"
            }
            Self::SleepConditionVariable => {
                "SleepConditionVariableSRW that is never woken, in whole milliseconds"
            }
            Self::WinsockSelect => "select of a socket that never receives data",
            Self::WaitableTimerAbs => "SetWaitableTimer to a time of the system clock",
            Self::WaitableTimer => "SetWaitableTimer for a time",
            Self::WaitableTimerPeriodic => "SetWaitableTimer with a period of whole milliseconds",
            Self::HighResTimer => {
                "SetWaitableTimer for a time, with CREATE_WAITABLE_TIMER_HIGH_RESOLUTION (Windows 10 1803)"
            }
            Self::HighResTimerPeriodic => {
                "SetWaitableTimer with a period, with CREATE_WAITABLE_TIMER_HIGH_RESOLUTION (Windows 10 1803)"
            }
            Self::TimeSetEvent => {
                "timeSetEvent, resolution 0; its function called in a thread of winmm"
            }
            Self::TimerQueue => {
                "CreateTimerQueueTimer; its function called in the thread of the timer queue"
            }
            Self::ThreadpoolTimer => {
                "SetThreadpoolTimer with window 0; its function called in the thread pool"
            }
        }
    }

    /// Returns the unit of its times. A program with a finer time truncates it.
    pub const fn unit(self) -> Nanos {
        match self {
            Self::Poll
            | Self::EpollWait
            | Self::Sleep
            | Self::WaitForSingleObject
            | Self::SleepConditionVariable
            | Self::TimeSetEvent
            | Self::TimerQueue => Nanos::from_ms(1),
            Self::Usleep
            | Self::Setitimer
            | Self::SetitimerVirtual
            | Self::SetitimerProf
            | Self::Select
            | Self::SoRcvtimeo
            | Self::WinsockSelect => Nanos::from_us(1),
            Self::WaitableTimerAbs
            | Self::WaitableTimer
            | Self::WaitableTimerPeriodic
            | Self::HighResTimer
            | Self::HighResTimerPeriodic
            | Self::ThreadpoolTimer => Nanos::from_ns(100),
            Self::ClockNanosleepAbs
            | Self::ClockNanosleepRealtime
            | Self::ClockNanosleepBoottime
            | Self::ClockNanosleepTai
            | Self::ClockNanosleep
            | Self::TimerfdAbs
            | Self::Timerfd
            | Self::TimerCreate
            | Self::TimerCreateThread
            | Self::Ppoll
            | Self::Pselect
            | Self::EpollPwait2
            | Self::Futex
            | Self::SemTimedwait
            | Self::CondTimedwait
            | Self::MutexTimedlock
            | Self::Sigtimedwait
            | Self::MqTimedreceive
            | Self::Semtimedop
            | Self::IoUring
            | Self::IoUringMultishot => Nanos::from_ns(1),
        }
    }

    /// Returns the unit of its periods, if it has one. Other periods are not possible.
    pub const fn period_unit(self) -> Option<Nanos> {
        match self {
            Self::WaitableTimerPeriodic
            | Self::HighResTimerPeriodic
            | Self::TimeSetEvent
            | Self::TimerQueue
            | Self::ThreadpoolTimer => Some(Nanos::from_ms(1)),
            Self::ClockNanosleepAbs
            | Self::ClockNanosleepRealtime
            | Self::ClockNanosleepBoottime
            | Self::ClockNanosleepTai
            | Self::ClockNanosleep
            | Self::Usleep
            | Self::TimerfdAbs
            | Self::Timerfd
            | Self::TimerCreate
            | Self::TimerCreateThread
            | Self::Setitimer
            | Self::SetitimerVirtual
            | Self::SetitimerProf
            | Self::Poll
            | Self::Ppoll
            | Self::Select
            | Self::Pselect
            | Self::EpollWait
            | Self::EpollPwait2
            | Self::Futex
            | Self::SemTimedwait
            | Self::CondTimedwait
            | Self::MutexTimedlock
            | Self::Sigtimedwait
            | Self::SoRcvtimeo
            | Self::MqTimedreceive
            | Self::Semtimedop
            | Self::IoUring
            | Self::IoUringMultishot
            | Self::Sleep
            | Self::WaitForSingleObject
            | Self::SleepConditionVariable
            | Self::WinsockSelect
            | Self::WaitableTimerAbs
            | Self::WaitableTimer
            | Self::HighResTimer => None,
        }
    }

    /// Returns whether its expiries are times that do not depend on the service of an
    /// earlier one. A wait for a duration starts with its call.
    pub const fn keeps_time(self) -> bool {
        match self {
            Self::ClockNanosleepAbs
            | Self::ClockNanosleepRealtime
            | Self::ClockNanosleepBoottime
            | Self::ClockNanosleepTai
            | Self::TimerfdAbs
            | Self::Timerfd
            | Self::TimerCreate
            | Self::TimerCreateThread
            | Self::Setitimer
            | Self::WaitableTimerAbs
            | Self::WaitableTimerPeriodic
            | Self::HighResTimerPeriodic
            | Self::TimeSetEvent
            | Self::TimerQueue
            | Self::ThreadpoolTimer => true,
            Self::ClockNanosleep
            | Self::Usleep
            | Self::SetitimerVirtual
            | Self::SetitimerProf
            | Self::Poll
            | Self::Ppoll
            | Self::Select
            | Self::Pselect
            | Self::EpollWait
            | Self::EpollPwait2
            | Self::Futex
            | Self::SemTimedwait
            | Self::CondTimedwait
            | Self::MutexTimedlock
            | Self::Sigtimedwait
            | Self::SoRcvtimeo
            | Self::MqTimedreceive
            | Self::Semtimedop
            | Self::IoUring
            | Self::IoUringMultishot
            | Self::Sleep
            | Self::WaitForSingleObject
            | Self::SleepConditionVariable
            | Self::WinsockSelect
            | Self::WaitableTimer
            | Self::HighResTimer => false,
        }
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

/// Unknown timer. The error lists those of this system.
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
    /// continue without a wait, or there was no time.
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
            ("clock_nanosleep-abs", "io_uring-multishot")
        };
        let begin = format!("`nanonap` is not a known timer; choose from {first}, ");
        assert!(err.starts_with(&begin), "{err}");
        assert!(err.ends_with(&format!(", {last}")), "{err}");
    }

    #[test]
    fn each_timer_belongs_to_one_system() {
        let (of_linux, of_windows) = TimerApi::ALL.split_at(TimerApi::OF_LINUX);

        assert_eq!(of_linux.last(), Some(&TimerApi::IoUringMultishot));
        assert_eq!(of_windows.first(), Some(&TimerApi::Sleep));
    }
}
