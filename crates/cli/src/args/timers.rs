//! Arguments of `laggard bench timers`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_model::{Nanos, Service, TimerApi};

use super::some_time;
use crate::completion;

#[cfg(not(windows))]
const AFTER: &str = "\
Examples:
  laggard bench timers                      all timers, in a SCHED_OTHER thread
  laggard bench timers --api poll,ppoll     two timers
  sudo laggard bench timers --policy fifo:90,other --period 1ms,250us
  laggard bench timers --api timerfd --max-lateness 2ms
                                            exit code 1 if it is later once
  laggard bench timers --api timerfd,poll -o timers
                                            a recording per row
  laggard bench timers --json | jq '.rows[] | {api, class}'

Timers:
  clock_nanosleep-abs, nanosleep-realtime, nanosleep-boottime, nanosleep-tai,
  clock_nanosleep, usleep, timerfd-abs, timerfd, timer_create,
  timer_create-thread, setitimer, setitimer-virtual, setitimer-prof, poll,
  ppoll, select, pselect, epoll_wait, epoll_pwait2, futex, sem_timedwait,
  cond_timedwait, mutex_timedlock, sigtimedwait, so_rcvtimeo, mq_timedreceive,
  semtimedop, io_uring, io_uring-multishot

Exit code: 1 if a timer of --api is not available, was not measured because the
test was ended early, or has a latency above --max-lateness.";
#[cfg(windows)]
const AFTER: &str = "\
Examples:
  laggard bench timers                      all timers
  laggard bench timers --api Sleep,HighResTimer
  laggard bench timers --api HighResTimer --max-lateness 2ms
                                            exit code 1 if it is later once
  laggard bench timers --json

Timers:
  Sleep, WaitForSingleObject, SleepConditionVariable, winsock-select,
  WaitableTimer-abs, WaitableTimer, WaitableTimer-periodic, HighResTimer,
  HighResTimer-periodic, timeSetEvent, CreateTimerQueueTimer,
  SetThreadpoolTimer

Exit code: 1 if a timer of --api is not available, was not measured because the
test was ended early, or has a latency above --max-lateness.";

/// Period of the paper.
#[cfg(not(windows))]
const PERIOD: &str = "1.5ms";
/// Periodic timers of Windows support whole milliseconds only.
#[cfg(windows)]
const PERIOD: &str = "1ms";

#[derive(ClapArgs, Debug)]
#[command(after_help = AFTER)]
pub(crate) struct TimersArgs {
    /// Timers to test, or `all`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "all", value_parser = timer_choice, add = completion::timers())]
    pub(crate) api: Vec<TimerChoice>,
    /// Periods, 50us to 1s
    #[arg(
        short,
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = PERIOD
    )]
    pub(crate) period: Vec<Nanos>,
    /// Policies of the thread: fifo:N, other; on Windows only other
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "other"
    )]
    pub(crate) policy: Vec<Service>,
    /// Duration of each row, up to 10 min
    #[arg(short, long, value_name = "TIME", default_value = "3s", value_parser = some_time)]
    pub(crate) duration: Nanos,
    #[cfg_attr(
        windows,
        doc = "CPU of the thread [default: the last CPU that this process may use]"
    )]
    #[cfg_attr(
        not(windows),
        doc = "CPU of the thread [default: the last CPU that this process may use, or the CPU given by `taskset`]"
    )]
    #[arg(short, long, value_name = "CPU")]
    pub(crate) cpu: Option<u32>,
    /// Exit with code 1 if a latency of a timer of --api is above this time
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) max_lateness: Option<Nanos>,
    /// Print the figures of each timer [default: only for up to 10 rows]
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,
    /// Write a recording per row to this directory, which must not exist. They support
    /// fractions and quantiles, but not rates
    #[cfg(not(windows))]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Write Markdown with all figures
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Write JSON, described by `laggard schema timers`
    #[arg(long)]
    pub(crate) json: bool,
}

/// Timers that one word of --api selects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TimerChoice {
    All,
    Api(TimerApi),
}

fn timer_choice(text: &str) -> Result<TimerChoice, String> {
    match text {
        "all" => Ok(TimerChoice::All),
        name => match name.parse::<TimerApi>() {
            Ok(api) if TimerApi::HERE.contains(&api) => Ok(TimerChoice::Api(api)),
            Ok(api) => Err(format!(
                "`{api}` is a timer of another system; choose from {}",
                TimerApi::HERE
                    .iter()
                    .map(|api| api.name())
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
            Err(err) => Err(err.to_string()),
        },
    }
}
