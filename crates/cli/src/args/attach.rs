//! Arguments of `laggard attach`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::UnknownArgumentValueParser;
use clap::{Arg, ArgGroup, Args as ClapArgs};
use laggard_answer::attach::CycleChoice;
#[cfg(target_os = "linux")]
use laggard_console::args::OnLateArgs;
use laggard_console::args::episodes;
use laggard_model::{Nanos, Service};
use laggard_session::EpisodesChoice;

use super::some_time;
use crate::completion;

#[derive(ClapArgs, Debug)]
#[command(
    group = ArgGroup::new("measured")
        .required(true)
        .multiple(true)
        .args(["process", "comm", "cgroup", "unit", "command"]),
    override_usage = "\
laggard attach [OPTIONS] PID
       laggard attach [OPTIONS] --comm NAME | --cgroup PATH | --unit NAME
       laggard attach [OPTIONS] -- COMMAND",
    arg = Arg::new("pid")
        .long("pid")
        .hide(true)
        .value_parser(UnknownArgumentValueParser::suggest("the process ID needs no option: `laggard attach 4242`"))
)]
#[command(after_help = "\
Examples:
  sudo laggard attach 4242 --app jack-128       a process, until Ctrl-C
  sudo laggard attach --comm data-loop.0 --deadline 2667us -d 1min
  sudo laggard attach --unit jackd -d 1min      a service, also after a restart
  sudo laggard attach 4242 --every 1s           figures each second
  sudo laggard attach 4242 --on-late stop       until a cycle is late
  sudo laggard attach 4242 --tid 4250,4251 -d 30s
  sudo laggard attach -d 10s -- cyclictest -m -p 80 -t 2 -q
  sudo laggard attach 4242 -d 10s --json | jq '.rows[] | {name, deadline}'

Needs root. Without root, laggard prints the capabilities that suffice.")]
pub(crate) struct AttachArgs {
    /// Process to measure, with the processes that it has started
    #[arg(value_name = "PID", value_parser = some_process, conflicts_with_all = ["comm", "cgroup", "unit", "command"])]
    pub(crate) process: Option<u32>,
    /// Processes and threads with this name, as `ps -L` shows it: all threads of a
    /// process whose main thread has the name, otherwise only the threads with the name
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub(crate) comm: Option<String>,
    /// All current and later processes of this control group: a path as in
    /// `/proc/PID/cgroup`
    #[arg(long, value_name = "PATH", conflicts_with_all = ["comm", "unit", "command"])]
    pub(crate) cgroup: Option<String>,
    /// All processes of this systemd unit, also after a restart
    #[arg(long, value_name = "NAME", conflicts_with_all = ["comm", "command"])]
    pub(crate) unit: Option<String>,
    /// Only these threads of the process, without the threads that they start
    #[arg(
        long,
        value_name = "TID",
        value_delimiter = ',',
        requires = "process",
        conflicts_with_all = ["comm", "cgroup", "unit", "command"]
    )]
    pub(crate) tid: Vec<u32>,
    /// Maximum time from the expiry that starts a cycle to its end [default: the period]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) deadline: Option<Nanos>,
    /// Use the deadline of this application, the length of all its buffers but one: a name
    /// from `laggard qos --list`, or a TOML file
    #[arg(long = "app", alias = "for", value_name = "NAME|FILE", conflicts_with = "deadline", add = completion::applications())]
    pub(crate) application: Option<String>,
    /// Period of the cycles, and the deadline unless --deadline or --app sets it. Periods
    /// without a wakeup are counted. auto: the estimated period of each thread, if any
    #[arg(long, value_name = "TIME", default_value = "auto", value_parser = some_period)]
    pub(crate) period: PeriodArg,
    /// End of a cycle: the wait that has the period of the thread (auto), each sleep
    /// (wake), or sleeps in a system call, optionally on one descriptor: `epoll_wait:5`.
    /// Cycles that the program marks are always shown
    #[arg(long, value_name = "SITE", default_value = "auto", value_parser = some_cycle)]
    pub(crate) cycle: CycleChoice,
    /// Length of the measurement [default: until Ctrl-C, or until all threads have ended]
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Nanos>,
    /// Find the causes of late cycles and of the longest cycles: if this kernel supports
    /// it (auto), always, or fail (on), never (off)
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = episodes())]
    pub(crate) episodes: EpisodesChoice,
    /// Stack samples per second on each CPU, which identify system calls, page faults, and
    /// code that disables interrupts or preemption; 0 for none
    #[arg(long, value_name = "HZ", default_value_t = 0)]
    pub(crate) stack_rate: u32,
    /// Maximum number of rows: real-time threads first, then by number of wakeups
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rows: u32,
    /// During the measurement, print the figures of each interval of this length, and each
    /// late cycle with its causes
    #[arg(long, value_name = "TIME", value_parser = some_time, conflicts_with = "json")]
    pub(crate) every: Option<Nanos>,
    /// Also measure these services of laggard, every 1 ms on each CPU, for comparison:
    /// their threads do almost no work. laggard's real-time threads preempt measured
    /// threads of lower priority
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) also: Vec<Service>,
    /// Write each cycle to this new CSV file, with times of `CLOCK_MONOTONIC` in ns
    #[arg(long, value_name = "FILE")]
    pub(crate) activations: Option<PathBuf>,
    /// Record each cycle in this new directory: `laggard show`, `why`, `compare`,
    /// `check`, `report` and `export` read it
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Print all figures of each thread, the composition of its longest cycle, and the
    /// warnings
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,
    /// Write JSON, described by `laggard schema attach`
    #[arg(long)]
    pub(crate) json: bool,
    /// Command to run and measure, with all processes that it starts
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    pub(crate) late: OnLateArgs,
}

/// Period; `None`: estimated for each thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PeriodArg(pub(crate) Option<Nanos>);

fn some_process(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        format!("not a process ID; use `--comm {text}` for a name, `-- {text}` for a command")
    })
}

fn some_cycle(text: &str) -> Result<CycleChoice, String> {
    let (name, descriptor) = match text.split_once(':') {
        None => (text, None),
        Some((name, number)) => {
            let number = number.parse();
            let number =
                number.map_err(|_| format!("`{text}` lacks the file descriptor after `:`"))?;
            (name, Some(number))
        }
    };
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match name {
        "auto" => Ok(CycleChoice::Auto),
        "wake" => Ok(CycleChoice::Wake),
        _ if !name.is_empty() && name.bytes().all(is_name) => Ok(CycleChoice::Call {
            name: name.into(),
            descriptor,
        }),
        _ => Err("not `auto`, `wake` or a system call such as `epoll_wait:5`".into()),
    }
}

fn some_period(text: &str) -> Result<PeriodArg, String> {
    match text {
        "auto" => Ok(PeriodArg(None)),
        _ => some_time(text)
            .map(|time| PeriodArg(Some(time)))
            .map_err(|error| format!("{error}; or `auto`")),
    }
}
