//! Arguments of `laggard record` on Windows.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::TypedValueParser;
use laggard_console::args::{choice, episodes};
use laggard_model::{CpuList, Keep, Nanos, Service, TimerApi};
use laggard_session::EpisodesChoice;

use super::keep::keep;
use super::some_time;

/// Parses a timer of `laggard bench timers` that can wake a thread at a given time.
fn source() -> impl TypedValueParser<Value = TimerApi> {
    choice(&[
        (
            TimerApi::HighResTimer,
            "HighResTimer",
            "A high-resolution waitable timer",
        ),
        (
            TimerApi::WaitableTimer,
            "WaitableTimer",
            "A plain waitable timer",
        ),
        (
            TimerApi::TimeSetEvent,
            "timeSetEvent",
            "A multimedia timer, which calls a function",
        ),
        (
            TimerApi::ThreadpoolTimer,
            "SetThreadpoolTimer",
            "A timer of the thread pool, which calls a function",
        ),
    ])
}

const RECORD_EXAMPLES: &str = "\
Examples:
  laggard record                                30 s of this machine as it is
  laggard record --services other               a thread of normal priority
  laggard record --services realtime:24 --duration 10min -o busy.laggard";

#[derive(ClapArgs, Debug)]
#[command(after_help = RECORD_EXAMPLES)]
pub(crate) struct RecordArgs {
    /// Directory to create [default: a name with the time]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Duration [default: 30s]
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Nanos>,
    /// CPUs to measure, as in `0-3,6` [default: all CPUs that this process may use]
    #[arg(short, long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Load during the recording: idle, draw, fp or fileio (`laggard load list`)
    #[arg(short, long, value_name = "NAME", add = crate::completion::loads())]
    pub(crate) load: Option<String>,
    /// Services to measure: realtime:17 to realtime:31 (threads of a process of the
    /// real-time class, which needs an administrator), or, not together with them, mmcss (a
    /// thread of "Pro Audio") and other (a thread of normal priority). The driver
    /// (`laggard driver`) adds dpc (the DPC of a timer) and kthread:16 to kthread:31 (kernel
    /// threads that it wakes). All of them must be available [default:
    /// realtime:31,realtime:24, or other if these are not available]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) services: Option<Vec<Service>>,
    /// Mean time between two expiries of a service on a CPU [default: 1ms]. Without
    /// --services, other has twice this period
    #[arg(short, long, value_name = "TIME")]
    pub(crate) period: Option<Nanos>,
    /// Latency threshold: a wakeup above it is late, and its trace data is kept for `laggard
    /// why` [default: for each service 10 times the median of the first 3 s, at most their
    /// p99.9, between 50us and 1ms; for the live count 1ms]
    #[arg(short, long, value_name = "TIME")]
    pub(crate) threshold: Option<Nanos>,
    /// Keep trace data of late wakeups, and timestamps of when threads became ready and ran
    /// (ETW, which needs an administrator): all that the machine has (auto), all or fail (on), or
    /// none (off)
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = episodes())]
    pub(crate) episodes: EpisodesChoice,
    /// Maximum number of late wakeups with trace data per minute, shared fairly among
    /// services and CPUs. Each new max is kept too
    #[arg(long, value_name = "COUNT", default_value_t = 600)]
    pub(crate) max_episodes_per_minute: u64,
    /// Samples to keep: all, or histograms and the tail
    #[arg(short, long, value_name = "WHAT", default_value = "all", value_parser = keep())]
    pub(crate) keep: Keep,
    /// Timer that wakes the threads; the services of the driver use their own timer
    #[arg(long, value_name = "API", default_value = "HighResTimer", value_parser = source())]
    pub(crate) source: TimerApi,
    /// Request expiries on a fixed grid instead of spreading them. A fixed grid can miss a
    /// periodic disturbance, such as a tick of the system
    #[arg(long)]
    pub(crate) no_dither: bool,
    /// Print neither progress nor result, only the reason if the result is not trustworthy
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
