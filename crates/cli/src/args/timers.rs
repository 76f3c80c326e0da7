//! Arguments of `laggard timers`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_model::{Nanos, Service, TimerApi};

use super::some_time;
use crate::completion;

#[cfg(not(windows))]
const AFTER: &str = "\
Examples:
  laggard timers                        all of them, as a normal thread
  laggard timers --api poll,ppoll       these two
  sudo laggard timers --policy fifo:90,other --period 1ms,250us
  laggard timers --api timerfd --max-lateness 2ms
                                        exit code 1 where it is later once
  laggard timers --api timerfd,poll --table1 --table2
                                        as Jones and Regehr had them in 1999
  laggard timers --api timerfd,poll -o timers     a recording of each row
  laggard timers --json | jq '.rows[] | {api, class}'

Timers:
  clock_nanosleep-abs, nanosleep-realtime, nanosleep-boottime, nanosleep-tai,
  clock_nanosleep, usleep, timerfd-abs, timerfd, timer_create,
  timer_create-thread, setitimer, setitimer-virtual, setitimer-prof, poll,
  ppoll, select, pselect, epoll_wait, epoll_pwait2, futex, sem_timedwait,
  cond_timedwait, mutex_timedlock, sigtimedwait, so_rcvtimeo, mq_timedreceive,
  semtimedop, io_uring, io_uring-multishot

Exit code 1 when a timer asked for by name cannot be had here, was not measured
because it was ended early, or is later than --max-lateness.";
#[cfg(windows)]
const AFTER: &str = "\
Examples:
  laggard timers                        all of them
  laggard timers --api Sleep,HighResTimer
  laggard timers --api HighResTimer --max-lateness 2ms
                                        exit code 1 where it is later once
  laggard timers --api timeSetEvent --table1 --table2
                                        as Jones and Regehr had them in 1999
  laggard timers --json

Timers:
  Sleep, WaitForSingleObject, SleepConditionVariable, winsock-select,
  WaitableTimer-abs, WaitableTimer, WaitableTimer-periodic, HighResTimer,
  HighResTimer-periodic, timeSetEvent, CreateTimerQueueTimer,
  SetThreadpoolTimer

Exit code 1 when a timer asked for by name cannot be had here, was not measured
because it was ended early, or is later than --max-lateness.";

/// What Jones and Regehr asked for on the systems that could be asked for it;
#[cfg(not(windows))]
const PERIOD: &str = "1.5ms";
/// and elsewhere: timers of Windows that go on by themselves keep whole ones alone.
#[cfg(windows)]
const PERIOD: &str = "1ms";

/// Each timer is asked for the same period again and again, then for single
/// times of 1 to 3 ms at random instants; by one thread, one timer at a time.
///
/// A row has the mean interval between callbacks; the tick of the system's that
/// the timer waits for; the unit to which it rounds; the slack for which it comes
/// later, and how much later it comes of its own; how late it was, in the median and
/// at most; and what that makes it.
#[derive(ClapArgs, Debug)]
#[command(after_help = AFTER)]
pub(crate) struct TimersArgs {
    /// Timers, or `all`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "all", value_parser = some_timers, add = completion::timers())]
    pub(crate) api: Vec<SomeTimers>,
    /// Periods to ask for, 50us to 1s
    #[arg(
        short,
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = PERIOD
    )]
    pub(crate) period: Vec<Nanos>,
    /// What the thread is: fifo:N, other; on Windows other alone
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "other"
    )]
    pub(crate) policy: Vec<Service>,
    /// How long each row takes, up to 10 minutes
    #[arg(short, long, value_name = "TIME", default_value = "3s", value_parser = some_time)]
    pub(crate) duration: Nanos,
    #[cfg_attr(
        windows,
        doc = "CPU of the threads [default: the last one that this process may use]"
    )]
    #[cfg_attr(
        not(windows),
        doc = "CPU of the threads [default: the last one that this process may use, or that `taskset` started it on]"
    )]
    #[arg(short, long, value_name = "CPU")]
    pub(crate) cpu: Option<u32>,
    /// Exit code 1 where a timer of --api is later than this, once
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) max_lateness: Option<Nanos>,
    /// Times between callbacks as Table 1 of Jones and Regehr (1999) has them
    #[arg(long, conflicts_with = "json")]
    pub(crate) table1: bool,
    /// Their histogram in bins of 100 us, as its Table 2
    #[arg(long, conflicts_with = "json")]
    pub(crate) table2: bool,
    /// Keep each row as a recording of its own in this folder, which must not exist; of
    /// them shares and quantiles are told, and no rates
    #[cfg(not(windows))]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Write JSON; `laggard schema timers` describes it
    #[arg(long)]
    pub(crate) json: bool,
}

/// Timers that one word of a list stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SomeTimers {
    All,
    One(TimerApi),
}

fn some_timers(text: &str) -> Result<SomeTimers, String> {
    match text {
        "all" => Ok(SomeTimers::All),
        name => match name.parse::<TimerApi>() {
            Ok(api) if TimerApi::HERE.contains(&api) => Ok(SomeTimers::One(api)),
            Ok(api) => Err(format!(
                "`{api}` is a timer of another system; choose from {}",
                TimerApi::HERE
                    .iter()
                    .map(|it| it.name())
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
            Err(err) => Err(err.to_string()),
        },
    }
}
