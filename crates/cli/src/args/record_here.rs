//! Arguments of `laggard record` on Windows: what of it there is there.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use laggard_model::{CpuList, Nanos, Service, TimerApi};

use super::{EpisodesArg, KeepArg, some_time};

/// Timers of `laggard bench timers` with which a thread can wait until a given time.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum WaitArg {
    /// A waitable timer of high resolution
    #[default]
    #[value(name = "HighResTimer")]
    HighRes,
    /// A plain waitable timer
    #[value(name = "WaitableTimer")]
    Waitable,
    /// A multimedia timer, which calls a function
    #[value(name = "timeSetEvent")]
    Multimedia,
    /// A timer of the thread pool, which calls a function
    #[value(name = "SetThreadpoolTimer")]
    Pool,
}

impl WaitArg {
    pub(crate) const fn api(self) -> TimerApi {
        match self {
            Self::HighRes => TimerApi::HighResTimer,
            Self::Waitable => TimerApi::WaitableTimer,
            Self::Multimedia => TimerApi::TimeSetEvent,
            Self::Pool => TimerApi::ThreadpoolTimer,
        }
    }
}

const RECORD_EXAMPLES: &str = "\
Examples:
  laggard record                                30 s of this machine as it is
  laggard record --services other               a thread of normal priority
  laggard record --services realtime:24 --duration 10min -o busy.laggard";

/// Measures how late threads are that wait for a waitable timer of high resolution: from
/// the instant that was asked for to the thread's first instruction. Ends at --duration or
/// with Ctrl-C; the recording is complete each time. Not tested on real Windows.
#[derive(ClapArgs, Debug)]
#[command(after_help = RECORD_EXAMPLES)]
pub(crate) struct RecordArgs {
    /// Folder to write, which must not exist [default: a name with the time]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// How long [default: 30s]
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Nanos>,
    /// CPUs to measure, as in `0-3,6` [default: all that this process may use]
    #[arg(short, long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Services to measure: realtime:17 to realtime:31 (threads of a process of the
    /// real-time class, which takes an administrator), or apart from them mmcss (a
    /// thread of "Pro Audio") and other (a thread of normal priority); with the driver
    /// (`laggard driver`) dpc and kthread:16 to kthread:31, a timer's DPC and kernel
    /// threads that it wakes; those named must all be possible [default: realtime:31,realtime:24, or other where they cannot
    /// be had]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) services: Option<Vec<Service>>,
    /// Mean time between two expiries of a service on a CPU [default: 1ms];
    /// without --services, of other twice this
    #[arg(short, long, value_name = "TIME")]
    pub(crate) period: Option<Nanos>,
    /// Latency above which a wakeup is shown as exceeding, and kept as an episode
    /// for `laggard why` [default: 1ms for the first; for the
    /// other 10 times the median of each service's first 3 s, at most their p99.9,
    /// and from 50us to 1ms]
    #[arg(short, long, value_name = "TIME")]
    pub(crate) threshold: Option<Nanos>,
    /// Have the kernel tell what it does (ETW, which takes an administrator), stamp
    /// when threads could run and did, and keep late activations with the evidence of
    /// who caused them: as far as it can be had (auto), surely (on), or not at all (off)
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) episodes: EpisodesArg,
    /// Late activations to keep in each minute at most, shared fairly among
    /// services and CPUs, besides each one's new largest
    #[arg(long, value_name = "COUNT", default_value_t = 600)]
    pub(crate) max_episodes_per_minute: u64,
    /// Keep every sample, or histograms and the tail
    #[arg(short, long, value_name = "WHAT", default_value = "all")]
    pub(crate) keep: KeepArg,
    /// By what threads wait; the driver's services have its own
    #[arg(long, value_enum, value_name = "API", default_value_t)]
    pub(crate) source: WaitArg,
    /// Request expiries on a fixed grid instead of spreading them, which lets a
    /// hidden tick of the system hide
    #[arg(long)]
    pub(crate) no_dither: bool,
    /// Show neither progress nor result, only why it is not trustworthy
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
