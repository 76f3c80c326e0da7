//! Arguments of the commands that answer questions from recordings.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use laggard_model::{Nanos, Service, UsagePattern};

use crate::completion;

/// The application is named from the catalogue (--list), read from a TOML
/// file, or given by its buffers; without any, a few of the catalogue have a
/// line each. Recordings of the same load count together.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard qos --list                            applications that are known
  laggard qos busy.laggard                      a few of them
  laggard qos busy.laggard --app modem          is it fit?
  laggard qos busy.laggard --app modem --curve  what more buffers buy
  laggard qos idle.laggard busy.laggard --app jack-128 --service fifo:90
  laggard qos busy.laggard --buffers 3 --buffer 6ms --compute 1.5ms

An application's file:
  name = \"my mixer\"
  buffers = 3
  buffer = \"6ms\"
  compute = \"1.5ms\"")]
pub(crate) struct QosArgs {
    /// Recordings
    #[arg(required_unless_present = "list", value_name = "DIR", add = completion::recordings())]
    pub(crate) recordings: Vec<PathBuf>,
    /// List the applications of the catalogue, with their sources
    #[arg(long)]
    pub(crate) list: bool,
    /// Application: a name of the catalogue, or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with_all = ["buffers", "buffer", "compute"], add = completion::applications())]
    pub(crate) app: Option<String>,
    /// Number of buffers, 2 or more
    #[arg(long, value_name = "N", requires_all = ["buffer", "compute"])]
    pub(crate) buffers: Option<u32>,
    /// Length of one buffer
    #[arg(long, value_name = "TIME")]
    pub(crate) buffer: Option<Nanos>,
    /// Work for one buffer
    #[arg(long, value_name = "TIME")]
    pub(crate) compute: Option<Nanos>,
    /// Only this service [default: every one recorded; the sentence is on that
    /// which would run the application]
    #[arg(short, long, value_name = "NAME", add = completion::services())]
    pub(crate) service: Option<Service>,
    /// Every service, over the number of buffers, with all caveats
    #[arg(long)]
    pub(crate) curve: bool,
    /// Write JSON; `laggard schema qos` describes it
    #[arg(long)]
    pub(crate) json: bool,
}

/// The chance of a latency larger than any seen, and what half and nine of ten
/// such horizons stay below, by ranks and no model. A level, exceeded once per
/// horizon of use on average, is refused where the recordings do not support it.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard forecast busy.laggard
  laggard forecast monday.laggard tuesday.laggard --usage office
  laggard forecast busy.laggard --usage 7,5,10 --horizon day,week

Usage patterns (OSDI'99 3.1, 4.3): hours a day, days a week, and how many hours
of a person's use one measured hour stands for:
  always       24,7,1    office  7,5,10    workstation  7,5,5
  game         3.5,7,1   web     3.5,7,4")]
pub(crate) struct ForecastArgs {
    /// Recordings
    #[arg(required = true, value_name = "DIR", add = completion::recordings())]
    pub(crate) recordings: Vec<PathBuf>,
    /// Who uses the machine how: a name, or HOURS-A-DAY,DAYS-A-WEEK,COMPRESSION
    /// [default: the load's own, else always]
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) usage: Option<UsagePattern>,
    /// How far to look, in time of use
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "hour,day,week"
    )]
    pub(crate) horizon: Vec<HorizonArg>,
    /// Every level or the reasons against it, and the second estimate
    #[arg(long)]
    pub(crate) all: bool,
    /// Write JSON; `laggard schema forecast` describes it
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum HorizonArg {
    /// An hour
    Hour,
    /// A day's hours of use
    Day,
    /// A week's
    Week,
}

/// Latencies are those of the services that run the tasks, as recorded.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard sched busy.laggard --tasks robot.toml
  laggard sched busy.laggard --tasks rt-app.json

A task set:
  service = \"fifo:90\"     # what runs the tasks; a task may have its own
  overhead = \"5us\"        # two context switches, added to every job
  permitted = \"1h\"        # one failure per so long, for tasks with buffers
  [[task]]
  name = \"control\"
  period = \"5ms\"
  compute = \"1ms\"
  # deadline (default: the period), blocking, priority (default: by rate),
  # service, buffers (deadline: buffers - 1 periods)

Exit code 1 when a task misses, or when that cannot be told.")]
pub(crate) struct SchedArgs {
    /// Recording
    #[arg(value_name = "DIR", add = completion::recordings())]
    pub(crate) recording: PathBuf,
    /// Task set: TOML, or the JSON of rt-app
    #[arg(short, long, value_name = "FILE", add = completion::tasks())]
    pub(crate) tasks: PathBuf,
    /// Every response, what holds of the set, and all caveats
    #[arg(long)]
    pub(crate) all: bool,
    /// Write JSON; `laggard schema sched` describes it
    #[arg(long)]
    pub(crate) json: bool,
}

/// A are the recordings before a change, B those after it; four of each or more,
/// made in turn (A B B A A B B A), tell what was changed from what changes by
/// itself. All must have been measured alike: same services, period, dither,
/// stages and load.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard compare a*.laggard --with b*.laggard
  laggard compare a*.laggard --with b*.laggard --at 1ms,16ms --service fifo:90
  laggard compare stock*.laggard --with rt*.laggard --app jack-128 --markdown

The level of a service is what few activations of both together are later than,
unless --at or --app gives it. A difference counts where the 95 % interval of
the ratio says so and the pairs agree, at the price of all that is compared
(Holm).

Exit code 3 where a recording is not trustworthy.")]
pub(crate) struct CompareArgs {
    /// Recordings A, to compare with
    #[arg(required = true, value_name = "DIR")]
    pub(crate) recordings: Vec<PathBuf>,
    /// Recordings B, which are compared with them
    #[arg(long, required = true, num_args = 1.., value_name = "DIR")]
    pub(crate) with: Vec<PathBuf>,
    /// How late is too late: the slack of an application, by a name of the
    /// catalogue (`laggard qos --list`) or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with = "at")]
    pub(crate) app: Option<String>,
    /// How late is too late [default: chosen for each service]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) at: Vec<Nanos>,
    /// Only this service [default: every one recorded]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) service: Option<Service>,
    /// Ratios from 1 over this to this count as equal
    #[arg(long, value_name = "RATIO", default_value_t = 1.25, value_parser = above_one)]
    pub(crate) equal: f64,
    /// What was changed, where it would otherwise be refused
    #[arg(long, value_name = "WHAT")]
    pub(crate) factor: Option<FactorArg>,
    /// Quantiles, counts, every condition, cause and note
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    pub(crate) all: bool,
    /// Write JSON; `laggard schema compare` describes it
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Write Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// Each requirement is met where the whole interval of what was measured is inside
/// its limit, broken where it is outside, and else not decided, with how long
/// would decide. What was lost counts against it, and a stall that had not ended
/// breaks it.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard check busy.laggard --require robot.toml
  laggard check new*.laggard --require robot.toml --baseline old*.laggard
  laggard check busy.laggard --require robot.toml --junit latency.xml --github

Requirements:
  confidence = 0.95
  when_unclear = \"fail\"    # or \"warn\": what is not decided passes
  [[require]]
  service = \"fifo:90\"      # without: every service; likewise load
  load = \"fileio\"
  at_most = \"250us\"        # for all but this share of activations
  share = 1e-5
  [[require]]
  app = \"jack-128\"         # of `laggard qos --list`, or a TOML file
  mttf = \"1h\"
  [[require]]
  service = \"fifo:90\"
  level = \"2ms\"            # later no more often than
  per = \"week\"
  [[require]]
  not_worse_than = 1.25     # times as often late as --baseline
  [[require]]
  longest_softirq = \"100us\"
  longest_irq = \"25us\"

Exit code 1 where one is broken, 3 where one is not decided.")]
pub(crate) struct CheckArgs {
    /// Recordings
    #[arg(required = true, value_name = "DIR", add = completion::recordings())]
    pub(crate) recordings: Vec<PathBuf>,
    /// File of requirements
    #[arg(short, long, value_name = "FILE")]
    pub(crate) require: PathBuf,
    /// Recordings to compare with, for `not_worse_than`; four of each or more
    #[arg(short, long, num_args = 1.., value_name = "DIR")]
    pub(crate) baseline: Vec<PathBuf>,
    /// Write the XML of `JUnit` to this file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Print annotations for GitHub before all else
    #[arg(long, conflicts_with = "json")]
    pub(crate) github: bool,
    /// Every note on the recordings
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,
    /// Write JSON; `laggard schema check` describes it
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum FactorArg {
    /// The load
    Load,
}

fn above_one(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ratio) if ratio > 1.0 && ratio < 1e3 => Ok(ratio),
        _ => Err("write a ratio above 1, such as 1.25".into()),
    }
}
