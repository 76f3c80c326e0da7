//! Arguments of `laggard record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_console::args::{OnLateArgs, StagesArg, episodes};
use laggard_measure::Drive;
use laggard_model::{BusyTurns, Competitors, CpuList, Keep, Nanos, Service};
use laggard_session::{EpisodesChoice, ProbeChoice};
use laggard_workload::load::LoadUser;

use super::keep::keep;
use super::some_time;
use crate::completion;

const RECORD_EXAMPLES: &str = "\
Examples:
  laggard record                                30 s of this machine as it is
  laggard record --app jack-128                 for an application and its needs
  laggard record --load fileio -o busy.laggard  under a built-in load
  laggard record --cpus 2,3 --period 100us      2 CPUs, 10,000 timers a second
  laggard record --services fifo:80 --duration 10min
  laggard record --require robot.toml --until-decided --load fileio
  laggard record --on-late stop --on-late-threshold 1ms
  laggard record --contexts 4 --turns 10ms      next to 4 busy processes
  laggard record --contexts 0 --load fp         next to a load on one CPU
  laggard record -- make -j8                    while a command runs";

#[derive(ClapArgs, Debug)]
#[command(after_help = RECORD_EXAMPLES)]
pub(crate) struct RecordCommand {
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    #[command(flatten)]
    pub(crate) until: UntilArgs,
    #[command(flatten)]
    pub(crate) late: OnLateArgs,
}

/// Requirements that decide when the recording ends.
#[derive(ClapArgs, Debug)]
pub(crate) struct UntilArgs {
    /// File of requirements for `laggard check`
    #[arg(long, value_name = "FILE", requires = "until_decided")]
    pub(crate) require: Option<PathBuf>,
    /// Record in parts until all requirements pass or one fails. Each part doubles the recorded
    /// time. laggard tests the requirements after each part
    #[arg(long, requires = "require", conflicts_with_all = ["duration", "command", "on_late"])]
    pub(crate) until_decided: bool,
    /// Maximum recording time of --until-decided
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = some_time)]
    pub(crate) at_most: Nanos,
}

/// Options of a measurement and its recording.
#[derive(ClapArgs, Debug)]
pub(crate) struct RecordArgs {
    /// Directory to create [default: a name with the time]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Application to evaluate: a name from `laggard qos --list`, or a TOML file. Measures
    /// the service that runs it, with the period that it needs
    #[arg(long = "app", alias = "for", value_name = "NAME|FILE")]
    pub(crate) application: Option<String>,
    /// Duration [default: 30s, or until the command after `--` ends]
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Nanos>,
    /// CPUs to measure, as in `0-3,6` [default: all online CPUs that this process may use]
    #[arg(short, long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Services to measure: irq, softirq, worker, deadline, fifo:1 to fifo:99, pi:1 to pi:99, other,
    /// nice:-20 to nice:19, slice:100us to slice:100ms, kthread, kthread:32 to kthread:99. All
    /// of them must be available [default: the available ones of irq,softirq,worker,fifo:90,fifo:50,other]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) services: Option<Vec<Service>>,
    /// Skip services of --services that this machine cannot measure
    #[arg(long, requires = "services")]
    pub(crate) skip_unavailable: bool,
    /// Mean time between two expiries of a service on a CPU [default: 1ms, or as --app
    /// needs]. Without --services, softirq and other have twice this period, and fifo:50 has
    /// four times this period
    #[arg(short, long, value_name = "TIME")]
    pub(crate) period: Option<Nanos>,
    /// Latency threshold: a wakeup above it is late, and its trace data is kept for `laggard
    /// why` [default: for each service and CPU 10 times the median of the first 3 s, at most
    /// their p99.9, between 50us and 1ms; for the live count 1ms]
    #[arg(short, long, value_name = "TIME")]
    pub(crate) threshold: Option<Nanos>,
    /// Keep trace data of late wakeups: all kinds that this kernel supports (auto), all or fail
    /// (on), or none (off)
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = episodes())]
    pub(crate) episodes: EpisodesChoice,
    /// Maximum number of late wakeups with trace data per minute in the long term, shared
    /// fairly among services and CPUs. Bursts of up to ten times this number, and each new
    /// max, are kept too
    #[arg(long, value_name = "COUNT", default_value_t = 600)]
    pub(crate) max_episodes_per_minute: u64,
    /// Stack samples per second and CPU in the trace data; 0 for none
    #[arg(long, value_name = "HZ", default_value_t = 1000)]
    pub(crate) stack_rate: u32,
    /// Count all interrupt handlers, softirqs, timer functions and work items, late or
    /// not, for `laggard why --handlers`
    #[arg(long)]
    pub(crate) handlers: bool,
    /// Kernel functions to time inside handlers, at most 16, for `laggard why --handlers`.
    /// Implies --handlers. Each call costs two BPF programs
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) functions: Vec<String>,
    /// Samples to keep: all, or histograms and the tail
    #[arg(short, long, value_name = "WHAT", default_value = "all", value_parser = keep())]
    pub(crate) keep: Keep,
    /// Let every user read the recording, which contains the names and call chains of all
    /// programs that ran [default: only the user who recorded, or ran `sudo`]
    #[arg(long)]
    pub(crate) share: bool,
    /// Request expiries on a fixed grid instead of spreading them. A fixed grid can miss a
    /// periodic disturbance
    #[arg(long)]
    pub(crate) no_dither: bool,
    /// Keep CPUs out of idle states while measuring, as cyclictest does by default. They
    /// are allowed again at the end, also after a crash
    #[arg(long)]
    pub(crate) hold_cpu_awake: bool,
    /// Load to run: a name from `laggard load list`, or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with = "command", add = completion::loads())]
    pub(crate) load: Option<String>,
    /// Measure deferred work in any context, in a boosted thread and in a plain thread, next
    /// to this number of busy processes (1 to 64) on one CPU, set with --cpus [default: the
    /// last]. With --load, the load runs on that CPU too, and 0 means the load alone
    #[arg(long, value_name = "COUNT", value_parser = competitors, conflicts_with_all = [
        "load_cpus", "load_user", "command", "services", "period",
        "application", "no_dither", "source",
    ])]
    pub(crate) contexts: Option<Competitors>,
    /// With --contexts: make the busy processes real-time, with time slices of this length
    /// (1ms to 100ms). They sleep for the last tenth of each second [default: `SCHED_OTHER`]
    #[arg(long, value_name = "TIME", requires = "contexts")]
    pub(crate) turns: Option<BusyTurns>,
    /// CPUs to run the load on [default: all]
    #[arg(long, value_name = "LIST")]
    pub(crate) load_cpus: Option<CpuList>,
    /// User to run the load as, with a clean environment; needs root [default: the user
    /// who ran `sudo`; root for a command after `--`]
    #[arg(long, value_name = "NAME", value_parser = load_user)]
    pub(crate) load_user: Option<LoadUser>,
    /// Source of wakeups: `timer`, or the interrupt of a UIO device that is raised on
    /// time, as in `uio:/dev/uio0`. With a device, --services takes one thread service
    /// [default: fifo:90] and --cpus one CPU
    #[arg(long, value_name = "WHAT", default_value = "timer", value_parser = source)]
    pub(crate) source: Drive,
    /// Stages to record: irq, `irq_thread`, expire, raise, waking, running, or none. Each
    /// needs a BPF program, which adds to the latency [default: all]
    #[arg(long, value_name = "LIST")]
    pub(crate) stages: Option<StagesArg>,
    /// Source of the stages: bpf, perf (tracepoints, for kernels without BTF), user
    /// (neither, without root), or the best available of them (best)
    #[arg(long, value_name = "WHAT", default_value = "best")]
    pub(crate) backend: ProbeChoice,
    /// Print neither progress nor result, only the reason if the result is not trustworthy
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Command to run while measuring
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Reads a number of busy processes; 0 for the load alone.
fn competitors(text: &str) -> Result<Competitors, String> {
    match text.trim() {
        "0" => Ok(Competitors::NONE),
        text => text
            .parse()
            .map_err(|err: laggard_model::ParseCompetitorsError| err.to_string()),
    }
}

/// Looks up a user of this machine by name.
fn load_user(name: &str) -> Result<LoadUser, String> {
    let user = nix::unistd::User::from_name(name)
        .map_err(|err| format!("cannot look up user `{name}`: {}", err.desc()))?
        .ok_or_else(|| format!("unknown user `{name}`; `getent passwd` lists the users"))?;
    Ok(LoadUser {
        user: user.uid.as_raw(),
        group: user.gid.as_raw(),
    })
}

fn source(text: &str) -> Result<Drive, String> {
    match (text, text.strip_prefix("uio:")) {
        ("timer", _) => Ok(Drive::Timer),
        (_, Some(device)) if !device.is_empty() => Ok(Drive::Uio(device.into())),
        _ => Err("use timer or uio:DEVICE, as in uio:/dev/uio0".into()),
    }
}
