//! Arguments of the commands that answer questions from recordings.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::TypedValueParser;
use laggard_answer::forecast::Horizon;
use laggard_answer::qos::{MissPolicy, XrunGoal};
use laggard_console::args::choice;
use laggard_model::{Nanos, Service, UsagePattern};

use crate::completion;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard qos --list                            list the catalogue
  laggard qos busy.laggard                      evaluate seven applications
  laggard qos busy.laggard --app modem          evaluate one
  laggard qos busy.laggard --app modem --curve  show the effect of more buffers
  laggard qos idle.laggard busy.laggard --app jack-128 --service fifo:90
  laggard qos busy.laggard --buffers 3 --buffer 6ms --compute 1.5ms
  laggard qos busy.laggard --app modem --policy drop
  laggard qos busy.laggard --app modem --goal \"1 per 8h\"

File of an application:
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
    /// Application: a name from the catalogue, or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with_all = ["buffers", "buffer", "compute"], add = completion::applications())]
    pub(crate) app: Option<String>,
    /// Number of buffers, 2 or more
    #[arg(long, value_name = "N", requires_all = ["buffer", "compute"])]
    pub(crate) buffers: Option<u32>,
    /// Length of one buffer
    #[arg(long, value_name = "TIME")]
    pub(crate) buffer: Option<Nanos>,
    /// Computing time for one buffer
    #[arg(long, value_name = "TIME")]
    pub(crate) compute: Option<Nanos>,
    /// Service that runs the application [default: the application's service, or the
    /// nearest recorded one]
    #[arg(short, long, value_name = "NAME", add = completion::services())]
    pub(crate) service: Option<Service>,
    /// Treatment of the buffers after an xrun
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "late",
        value_parser = policy(),
        conflicts_with = "list"
    )]
    pub(crate) policy: MissPolicy,
    /// Also test this goal, such as "1 per 8h": at most one burst of xruns in 8 hours, or
    /// "9 of 10 sessions of 2h": no xrun in nine of ten sessions of this length. If the
    /// recording is too short, print the odds that a longer recording decides
    #[arg(long, value_name = "N per TIME", conflicts_with = "list")]
    pub(crate) goal: Option<XrunGoal>,
    /// Show the effect of the number of buffers for all services, with all warnings
    #[arg(long)]
    pub(crate) curve: bool,
    /// Write Markdown, for an issue tracker
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Write JSON, described by `laggard schema qos`; without an application by
    /// `laggard schema qos-profiles`, with --list by `laggard schema qos-list`
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard forecast busy.laggard
  laggard forecast monday.laggard tuesday.laggard --usage office
  laggard forecast busy.laggard --usage 7,5,10 --horizon day,week

Usage patterns (OSDI'99 3.1, 4.3): hours per day, days per week, and hours of
human use per measured hour:
  always       24,7,1    office  7,5,10    workstation  7,5,5
  game         3.5,7,1   web     3.5,7,4")]
pub(crate) struct ForecastArgs {
    /// Recordings
    #[arg(required = true, value_name = "DIR", add = completion::recordings())]
    pub(crate) recordings: Vec<PathBuf>,
    /// Use of the machine: a name, or HOURS-A-DAY,DAYS-A-WEEK,COMPRESSION
    /// [default: the pattern of the load, or always]
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) usage: Option<UsagePattern>,
    /// Horizons of the forecast, in time of use
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "hour,day,week",
        value_parser = horizon()
    )]
    pub(crate) horizon: Vec<Horizon>,
    /// Show every horizon, every return level or the reason why it is missing, and the
    /// second estimate
    #[arg(long)]
    pub(crate) all: bool,
    /// Write Markdown, for an issue tracker
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Write JSON, described by `laggard schema forecast`
    #[arg(long)]
    pub(crate) json: bool,
}

fn policy() -> impl TypedValueParser<Value = MissPolicy> {
    choice(&[
        (
            MissPolicy::Late,
            "late",
            "A late buffer is still filled; later buffers wait for it",
        ),
        (
            MissPolicy::Drop,
            "drop",
            "A buffer is dropped at its deadline, and a dummy is played",
        ),
        (
            MissPolicy::Reset,
            "reset",
            "All due buffers are discarded, and the stream restarts",
        ),
    ])
}

fn horizon() -> impl TypedValueParser<Value = Horizon> {
    choice(&[
        (Horizon::Hour, "hour", "An hour of use"),
        (Horizon::Day, "day", "The hours of use in a day"),
        (Horizon::Week, "week", "The hours of use in a week"),
    ])
}

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard sched busy.laggard --tasks robot.toml
  laggard sched busy.laggard --tasks rt-app.json

A task set:
  service = \"fifo:90\"     # service of the tasks; a task may have its own
  overhead = \"5us\"        # two context switches, added to every job
  permitted = \"1h\"        # permitted time between two misses
  [[task]]
  name = \"control\"
  period = \"5ms\"
  compute = \"1ms\"
  # deadline (default: the period), blocking, priority (default: by rate),
  # service, buffers (deadline: buffers - 1 periods)

Exit code 1 if a task misses its deadline or the verdict is UNKNOWN.")]
pub(crate) struct SchedArgs {
    /// Recording
    #[arg(value_name = "DIR", add = completion::recordings())]
    pub(crate) recording: PathBuf,
    /// Task set: TOML, or the JSON of rt-app
    #[arg(short, long, value_name = "FILE", add = completion::tasks())]
    pub(crate) tasks: PathBuf,
    /// Show every response time, the tests of the whole set, and all warnings
    #[arg(long)]
    pub(crate) all: bool,
    /// Write Markdown, for an issue tracker
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Write JSON, described by `laggard schema sched`
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard check busy.laggard --require robot.toml
  laggard check new*.laggard --require robot.toml --baseline old*.laggard
  laggard check busy.laggard --require robot.toml --junit latency.xml --github

Requirements:
  confidence = 0.95
  when_unclear = \"fail\"    # or \"warn\": pass if the recording is too short
  [[require]]
  service = \"fifo:90\"      # default: every service
  load = \"fileio\"          # default: every load
  at_most = \"250us\"        # latency limit for all but this share of wakeups
  share = 1e-5
  [[require]]
  app = \"jack-128\"         # a name from `laggard qos --list`, or a TOML file
  mttf = \"1h\"
  [[require]]
  service = \"fifo:90\"
  level = \"2ms\"            # at most one wakeup per week is later than this
  per = \"week\"
  [[require]]
  not_worse_than = 1.25     # ratio of late wakeups to --baseline
  [[require]]
  longest_softirq = \"100us\"
  longest_irq = \"25us\"

Exit code 1 if a requirement fails, 3 if one is UNKNOWN.")]
pub(crate) struct CheckArgs {
    /// Recordings
    #[arg(required = true, value_name = "DIR", add = completion::recordings())]
    pub(crate) recordings: Vec<PathBuf>,
    /// File of requirements
    #[arg(short, long, value_name = "FILE")]
    pub(crate) require: PathBuf,
    /// Recordings to compare with, for `not_worse_than`; at least four per side
    #[arg(short, long, num_args = 1.., value_name = "DIR")]
    pub(crate) baseline: Vec<PathBuf>,
    /// Also write `JUnit` XML to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Print annotations for GitHub before the result
    #[arg(long, conflicts_with = "json")]
    pub(crate) github: bool,
    /// Print every check, and all warnings
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,
    /// Write Markdown, for a build summary or an issue tracker
    #[arg(long, conflicts_with_all = ["json", "github"])]
    pub(crate) markdown: bool,
    /// Write JSON, described by `laggard schema check`
    #[arg(long)]
    pub(crate) json: bool,
}
