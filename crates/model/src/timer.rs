//! Timers: the calls by which a program has the system wake it later, and what
//! was seen of one.

use schemars::JsonSchema;
use serde::Serialize;

use crate::by_name::by_name;
use crate::{Absence, Nanos, Service, nearest};

/// A call by which a program waits until a time, or for a time.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum TimerApi {
    /// `clock_nanosleep` until an instant.
    ClockNanosleepAbs,
    /// The same by `CLOCK_REALTIME`.
    ClockNanosleepRealtime,
    /// The same by `CLOCK_BOOTTIME`.
    ClockNanosleepBoottime,
    /// The same by `CLOCK_TAI`.
    ClockNanosleepTai,
    /// `clock_nanosleep` for a time.
    ClockNanosleep,
    /// `usleep`.
    Usleep,
    /// A timer descriptor set to an instant.
    TimerfdAbs,
    /// A timer descriptor that expires again and again.
    Timerfd,
    /// A POSIX timer that signals the thread again and again.
    TimerCreate,
    /// A POSIX timer that has a function called in a thread of its own.
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
    /// `io_uring` with a timeout that expires again and again.
    IoUringMultishot,
    /// `Sleep`.
    Sleep,
    /// `WaitForSingleObject` with a timeout.
    WaitForSingleObject,
    /// `SleepConditionVariableSRW` with a timeout.
    SleepConditionVariable,
    /// `select` of Winsock.
    WinsockSelect,
    /// A waitable timer set to an instant.
    WaitableTimerAbs,
    /// A waitable timer set for a time.
    WaitableTimer,
    /// A waitable timer that expires again and again.
    WaitableTimerPeriodic,
    /// A waitable timer of high resolution set for a time.
    HighResTimer,
    /// A waitable timer of high resolution that expires again and again.
    HighResTimerPeriodic,
    /// A multimedia timer that has a function called.
    TimeSetEvent,
    /// A timer of a timer queue that has a function called.
    TimerQueue,
    /// A timer of the thread pool that has a function called.
    ThreadpoolTimer,
}

impl TimerApi {
    /// So many of [`Self::ALL`] are of Linux, and those after them of Windows.
    const OF_LINUX: usize = 29;

    /// Those of this system, in the order in which they are shown.
    pub const HERE: &'static [Self] = {
        let all: &'static [Self] = &Self::ALL;
        let (of_linux, of_windows) = all.split_at(Self::OF_LINUX);
        if cfg!(windows) { of_windows } else { of_linux }
    };

    /// All, also of other systems, in the order in which they are shown.
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

    /// Its name, which `--api` takes.
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

    /// How it is called here.
    pub const fn about(self) -> &'static str {
        match self {
            Self::ClockNanosleepAbs => "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME)",
            Self::ClockNanosleepRealtime => "clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME)",
            Self::ClockNanosleepBoottime => "clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME)",
            Self::ClockNanosleepTai => "clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME)",
            Self::ClockNanosleep => "clock_nanosleep(CLOCK_MONOTONIC) for a time",
            Self::Usleep => "usleep",
            Self::TimerfdAbs => "timerfd set to an instant of CLOCK_MONOTONIC each time",
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
                "WaitForSingleObject of an event that nobody sets, in whole milliseconds"
            }
            Self::SleepConditionVariable => {
                "SleepConditionVariableSRW that nobody wakes, in whole milliseconds"
            }
            Self::WinsockSelect => "select of a socket to which nobody sends",
            Self::WaitableTimerAbs => "SetWaitableTimer to an instant of system time each time",
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

    /// The unit of the times that it takes. A program that has a finer time
    /// cuts it.
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

    /// The unit of the periods that it keeps by itself, where it takes no others. A
    /// program that has another period cannot have it kept.
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

    /// Whether its expiries are instants that do not depend on when an earlier
    /// one was served. A wait for a time begins when it is called.
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

    /// Whether it goes on expiring while nobody waits for it, and the thread that
    /// waits is the one that it wakes: only then can that thread hold it off.
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

    /// Whether the system calls a function in a thread of its own, also for expiries
    /// that passed in a stall.
    pub const fn calls_back(self) -> bool {
        matches!(
            self,
            Self::TimeSetEvent | Self::TimerQueue | Self::ThreadpoolTimer
        )
    }

    /// Whether the time that it takes is one of computing: while the process does
    /// not run, it stands still.
    pub const fn counts_cpu_time(self) -> bool {
        matches!(self, Self::SetitimerVirtual | Self::SetitimerProf)
    }
}

by_name!(
    TimerApi,
    "A call by which a program waits until a time, or for a time.",
    unknown: UnknownTimer
);

/// No timer has this name. Those of this system are to choose from.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{name}` is no timer that is known; choose from {}{}", names().join(", "), nearest(name, &names()))]
pub struct UnknownTimer {
    /// The name.
    pub name: String,
}

/// Of the timers of this system.
fn names() -> Vec<&'static str> {
    TimerApi::HERE.iter().map(|api| api.name()).collect()
}

/// What was seen of one timer, asked for one period by a thread of one service.
#[derive(Clone, Debug, PartialEq)]
pub struct TimerRun {
    /// The timer.
    pub api: TimerApi,
    /// What the thread was: `fifo:N` or `other`.
    pub service: Service,
    /// The period that was asked for.
    pub period: Nanos,
    /// Why it could not be had here, or not measured.
    pub absence: Option<Absence>,
    /// How much later than asked the system was allowed to wake the thread
    /// (`PR_GET_TIMERSLACK`). Nothing for a real-time thread.
    pub allowed_slack: Nanos,
    /// Asked for the same period again and again, in order.
    pub periodic: Vec<PeriodicWait>,
    /// Not waited for while several expiries passed, again and again. None where it
    /// does not go on meanwhile, or there was no time for it.
    pub held_off: Vec<HeldOff>,
    /// Asked for times of 1 to 3 ms at random instants, in order.
    pub single: Vec<SingleWait>,
    /// Waits left out because a signal ended them, or laggard was stopped.
    pub left_out: u64,
}

/// One of many waits for the same period.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeriodicWait {
    /// When it was due.
    pub due: Nanos,
    /// When the thread ran again.
    pub woke: Nanos,
    /// Whether it came right after the one before it, of which nothing was left
    /// out.
    pub follows: bool,
}

/// What a timer did that goes on by itself, after nobody had waited for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeldOff {
    /// When an expiry had been served, and it was not waited for any more.
    pub from: Nanos,
    /// When it was waited for again.
    pub back: Nanos,
    /// When the waits from then on were over, in order.
    pub woke: Vec<Nanos>,
    /// How many expiries these waits served, as the system says; `None`: it does not.
    pub told: Option<u64>,
}

/// One wait that was not like the one before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SingleWait {
    /// The time that was asked for.
    pub asked: Nanos,
    /// When it was asked.
    pub called: Nanos,
    /// When the thread ran again.
    pub woke: Nanos,
    /// Whether no slack was allowed for this one.
    pub is_tight: bool,
    /// How late the same thread's sleep until an instant was, just before, with
    /// no slack allowed: what this machine cannot do better.
    pub reference_late: Nanos,
}

/// A clock of the system's: what it states of itself, and what it does.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct ClockSeen {
    /// Its name.
    pub name: String,
    /// The step that it states (`clock_getres`; on Windows its frequency or increment).
    pub stated_ns: Option<Nanos>,
    /// The smallest step that was seen when it was read again and again. Absent:
    /// it did not go on meanwhile.
    pub step_ns: Option<Nanos>,
    /// Whether a thread can sleep by it.
    pub sleeps: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timer_is_found_by_its_name_however_it_is_written() {
        for api in TimerApi::ALL {
            assert_eq!(api.name().parse(), Ok(api));
            assert_eq!(api.name().to_uppercase().parse(), Ok(api));
        }
    }

    #[test]
    fn an_unknown_timer_is_refused_with_those_that_are_known() {
        let err = "nanonap".parse::<TimerApi>().unwrap_err().to_string();

        let (first, last) = if cfg!(windows) {
            ("Sleep", "SetThreadpoolTimer")
        } else {
            ("clock_nanosleep-abs", "io_uring-multishot")
        };
        let begin = format!("`nanonap` is no timer that is known; choose from {first}, ");
        assert!(err.starts_with(&begin), "{err}");
        assert!(err.ends_with(&format!(", {last}")), "{err}");
    }

    #[test]
    fn every_timer_is_of_one_system() {
        let (of_linux, of_windows) = TimerApi::ALL.split_at(TimerApi::OF_LINUX);

        assert_eq!(of_linux.last(), Some(&TimerApi::IoUringMultishot));
        assert_eq!(of_windows.first(), Some(&TimerApi::Sleep));
    }
}
