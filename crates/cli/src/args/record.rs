//! Arguments of what measures.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_console::args::{BackendArg, StagesArg};
use laggard_measure::Drive;
use laggard_model::{BusyTurns, Competitors, CpuList, Nanos, Service};
use laggard_workload::load::LoadUser;

use super::{EpisodesArg, KeepArg, some_time};
use crate::completion;

const RECORD_EXAMPLES: &str = "\
Examples:
  laggard record                                30 s of this machine as it is
  laggard record --for jack-128                 is it fit for this application?
  laggard record --load fileio -o busy.laggard  under a built-in load
  laggard record --cpus 2,3 --period 100us      two CPUs, 10,000 times a second
  laggard record --services fifo:80 --duration 10min
  laggard record --require robot.toml --until-decided --load fileio
  laggard record --contexts 4 --turns 10ms      beside 4 busy processes on a CPU
  laggard record -- make -j8                    while a command of yours runs";

/// Ends at --duration, when the command after `--` ends, or with Ctrl-C; the
/// recording is complete each time.
#[derive(ClapArgs, Debug)]
#[command(after_help = RECORD_EXAMPLES)]
pub(crate) struct RecordCommand {
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    #[command(flatten)]
    pub(crate) until: UntilArgs,
}

/// How long to go on where requirements say so.
#[derive(ClapArgs, Debug)]
pub(crate) struct UntilArgs {
    /// File of requirements, as of `laggard check`
    #[arg(long, value_name = "FILE", requires = "until_decided")]
    pub(crate) require: Option<PathBuf>,
    /// Record until all of --require is met, or some of it is broken: in pieces,
    /// each as long as all before it, with a look after each
    #[arg(long, requires = "require", conflicts_with_all = ["duration", "command"])]
    pub(crate) until_decided: bool,
    /// With --until-decided: how much to record at most
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = some_time)]
    pub(crate) at_most: Nanos,
}

/// What is measured, and what is kept of it.
#[derive(ClapArgs, Debug)]
pub(crate) struct RecordArgs {
    /// Folder to write, which must not exist [default: a name with the time]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Application to answer for: a name of `laggard qos --list`, or a TOML file.
    /// Measures the service that runs it, as finely as it needs
    #[arg(long = "for", value_name = "NAME|FILE")]
    pub(crate) application: Option<String>,
    /// How long [default: 30s, or until the command after `--` ends]
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Nanos>,
    /// CPUs to measure, as in `0-3,6` [default: all online that this process
    /// may use, or those that `taskset` started it on]
    #[arg(short, long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Services to measure: irq, softirq, worker, deadline, fifo:1 to fifo:99, pi:1 to pi:99, other,
    /// nice:-20 to nice:19, slice:100us to slice:100ms, kthread; those named must all be possible
    /// [default: irq,softirq,worker,fifo:90,fifo:50,other, as far as possible]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) services: Option<Vec<Service>>,
    /// Mean time between two activations of a service on a CPU [default: 1ms,
    /// or what --for needs]; without --services, of softirq and other twice
    /// this, of fifo:50 four times
    #[arg(short, long, value_name = "TIME")]
    pub(crate) period: Option<Nanos>,
    /// Latency from which on an activation is shown as exceeding, and kept as
    /// an episode, which `laggard why` explains [default: 1ms for the first;
    /// for the other 10 times the median of each service's first 3 s, at most
    /// their p99.9, and from 50us to 1ms]
    #[arg(short, long, value_name = "TIME")]
    pub(crate) threshold: Option<Nanos>,
    /// Keep late activations with the evidence of who caused them: as far as
    /// this kernel allows (auto), surely (on), or not at all (off)
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) episodes: EpisodesArg,
    /// Late activations to keep in each minute at most in the long run, and ten
    /// times as many at once, shared fairly among services and CPUs, besides each
    /// one's new largest
    #[arg(long, value_name = "COUNT", default_value_t = 600)]
    pub(crate) max_episodes_per_minute: u64,
    /// Stack samples a second on each CPU, as evidence; 0 takes none
    #[arg(long, value_name = "HZ", default_value_t = 1000)]
    pub(crate) stack_rate: u32,
    /// Count all that the kernel runs beside threads, late or not: interrupt
    /// handlers, softirqs, timers' functions and work items, for `laggard why
    /// --handlers`
    #[arg(long)]
    pub(crate) handlers: bool,
    /// Keep every sample, or histograms and the tail
    #[arg(short, long, value_name = "WHAT", default_value = "all")]
    pub(crate) keep: KeepArg,
    /// Let every user read the recording, which has the names and call chains of
    /// all that ran; else only who made it may, or whom `sudo` made it for
    #[arg(long)]
    pub(crate) share: bool,
    /// Request expiries on a fixed grid instead of spreading them, which lets
    /// a hidden tick of the kernel hide
    #[arg(long)]
    pub(crate) no_dither: bool,
    /// Keep CPUs from idle states while measuring (what cyclictest does
    /// unasked); undone at the end, also after a crash
    #[arg(long)]
    pub(crate) hold_cpu_awake: bool,
    /// Load to run meanwhile: a name that `laggard load list` shows, or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with = "command", add = completion::loads())]
    pub(crate) load: Option<String>,
    /// Measure deferred work for any context, a boosted thread and a plain one
    /// beside so many busy processes, 1 to 64, that compete for the one CPU of
    /// --cpus [default: the last]; says how many turns of theirs it waits for
    #[arg(long, value_name = "COUNT", conflicts_with_all = [
        "load", "load_cpus", "load_user", "command", "services", "period",
        "application", "no_dither", "source",
    ])]
    pub(crate) contexts: Option<Competitors>,
    /// With --contexts: the busy processes are real-time ones that give each other
    /// turns of this length, 1ms to 100ms, and sleep for the last tenth of each
    /// second [default: normal ones, as the kernel likes]
    #[arg(long, value_name = "TIME", requires = "contexts")]
    pub(crate) turns: Option<BusyTurns>,
    /// CPUs to run the load on [default: all]
    #[arg(long, value_name = "LIST")]
    pub(crate) load_cpus: Option<CpuList>,
    /// User to run the load as, with a clean environment; takes root [default:
    /// whom `sudo` runs for, but a command after `--` as root]
    #[arg(long, value_name = "NAME")]
    pub(crate) load_user: Option<LoadUserArg>,
    /// What begins an activation: `timer`, or the interrupt of a UIO device
    /// that is raised on time, as in `uio:/dev/uio0`; then --services names
    /// one thread service [default there: fifo:90] and --cpus one CPU
    #[arg(long, value_name = "WHAT", default_value = "timer")]
    pub(crate) source: SourceArg,
    /// Stages on the way to stamp, of irq, `irq_thread`, expire, raise, waking
    /// and running, or none: each takes a program, which costs time on the way
    /// [default: all]
    #[arg(long, value_name = "LIST")]
    pub(crate) stages: Option<StagesArg>,
    /// What to measure with
    #[arg(long, value_name = "WHAT", default_value = "best")]
    pub(crate) backend: BackendArg,
    /// Show neither progress nor result, only why it is not trustworthy
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Command to run meanwhile
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// A user of this machine, by name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LoadUserArg(pub(crate) LoadUser);

impl std::str::FromStr for LoadUserArg {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = nix::unistd::User::from_name(name);
        let user = found.map_err(|err| format!("look up the user: {}", err.desc()))?;
        let user = user.ok_or_else(|| format!("there is no user `{name}`; see `getent passwd`"))?;
        Ok(Self(LoadUser {
            user: user.uid.as_raw(),
            group: user.gid.as_raw(),
        }))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct SourceArg(pub(crate) Drive);

impl std::str::FromStr for SourceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("uio:")) {
            ("timer", _) => Ok(Self(Drive::Timer)),
            (_, Some(device)) if !device.is_empty() => Ok(Self(Drive::Uio(device.into()))),
            _ => Err("use timer or uio:DEVICE, as in uio:/dev/uio0".into()),
        }
    }
}
