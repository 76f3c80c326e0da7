//! Arguments of `laggard attach`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_answer::attach::CycleChoice;
use laggard_model::{Nanos, Service};

use super::{EpisodesArg, some_time};
use crate::completion;

/// Watches threads of a program that runs, or of a command: from what wakes one
/// until it sleeps by itself again. Nothing of the program is changed. Threads and
/// processes that it starts are watched, too.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  sudo laggard attach 4242 --for jack-128       a process, until Ctrl-C
  sudo laggard attach --comm data-loop.0 --deadline 2667us -d 1min
  sudo laggard attach --unit jackd -d 1min      a service, also when it restarts
  sudo laggard attach 4242 --every 1s           what came, as it comes
  sudo laggard attach 4242 --tid 4250,4251 -d 30s
  sudo laggard attach -d 10s -- cyclictest -m -p 80 -t 2 -q
  sudo laggard attach 4242 -d 10s --json | jq '.rows[] | {name, deadline}'

Needs root; without it, it says what else would do.")]
pub(crate) struct AttachArgs {
    /// Process
    #[arg(value_name = "PID", required_unless_present_any = ["comm", "cgroup", "unit", "command"], conflicts_with_all = ["comm", "cgroup", "unit", "command"])]
    pub(crate) process: Option<u32>,
    /// Processes and threads of this name, as `ps -L` shows it: all threads of a
    /// process whose first thread has it, else those that have it
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub(crate) comm: Option<String>,
    /// All processes of this control group, and those that come to it: a path as
    /// `/proc/PID/cgroup` shows it
    #[arg(long, value_name = "PATH", conflicts_with_all = ["comm", "unit", "command"])]
    pub(crate) cgroup: Option<String>,
    /// All processes of this systemd unit, also when it starts anew
    #[arg(long, value_name = "NAME", conflicts_with_all = ["comm", "command"])]
    pub(crate) unit: Option<String>,
    /// Of the process, these threads only, and not what they start
    #[arg(
        long,
        value_name = "TID",
        value_delimiter = ',',
        requires = "process",
        conflicts_with_all = ["comm", "cgroup", "unit", "command"]
    )]
    pub(crate) tid: Vec<u32>,
    /// How long after it was due an activation may end [default: the period]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) deadline: Option<Nanos>,
    /// The deadline of this application, its buffers but one: a name of `laggard qos
    /// --list`, or a TOML file
    #[arg(long = "for", visible_alias = "app", value_name = "NAME|FILE", conflicts_with = "deadline", add = completion::applications())]
    pub(crate) application: Option<String>,
    /// The period with which timers are to wake threads: it is the deadline, unless one
    /// is given, and periods without a wake are counted; auto: the one that the wakes of
    /// each have, if they have one
    #[arg(long, value_name = "TIME", default_value = "auto", value_parser = some_period)]
    pub(crate) period: PeriodArg,
    /// What ends a cycle: the wait that carries the thread's period (auto), each sleep
    /// (wake), or sleeps in this system call, on this descriptor if one is given:
    /// `epoll_wait:5`. Cycles that a program marks itself are shown as well
    #[arg(long, value_name = "SITE", default_value = "auto", value_parser = some_cycle)]
    pub(crate) cycle: CycleChoice,
    /// How long [default: until Ctrl-C, or the end of what is watched]
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Nanos>,
    /// Tell to whom the time of activations went that missed their deadline or are the
    /// largest: as far as this kernel allows (auto), surely (on), or not at all (off)
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) episodes: EpisodesArg,
    /// Stack samples a second on each CPU, which show code that keeps interrupts out
    /// or cannot be preempted; 0 takes none
    #[arg(long, value_name = "HZ", default_value_t = 0)]
    pub(crate) stack_rate: u32,
    /// How many rows there may be: real-time threads first, then those that are woken
    /// most
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rows: u32,
    /// Print so often what came meanwhile, and each activation that missed its deadline
    /// as it comes, with to whom its time went
    #[arg(long, value_name = "TIME", value_parser = some_time, conflicts_with = "json")]
    pub(crate) every: Option<Nanos>,
    /// Measure these services of laggard's own meanwhile, every 1ms on each CPU, as
    /// `record` does: how late a thread is that has next to nothing to do. A real-time
    /// thread of laggard's is before those of lower priority that are watched
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) also: Vec<Service>,
    /// Write each activation to this new file, as comma-separated values: instants by
    /// `CLOCK_MONOTONIC`, ns
    #[arg(long, value_name = "FILE")]
    pub(crate) activations: Option<PathBuf>,
    /// Record each activation here, which must not exist: `laggard show`, `why`, `report`,
    /// `compare`, `check`, `plot` and `export` read it
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Print all figures of each thread, the composition of its longest cycle, and the
    /// warnings
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,
    /// Write JSON; `laggard schema attach` describes it
    #[arg(long)]
    pub(crate) json: bool,
    /// Command to run and to watch, with all it starts
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// A period; `None`: each thread's own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PeriodArg(pub(crate) Option<Nanos>);

fn some_cycle(text: &str) -> Result<CycleChoice, String> {
    let (name, descriptor) = match text.split_once(':') {
        None => (text, None),
        Some((name, number)) => {
            let number = number.parse();
            let number =
                number.map_err(|_| format!("`{text}` has no file descriptor after `:`"))?;
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
            .map_err(|why| format!("{why}; or `auto`")),
    }
}
