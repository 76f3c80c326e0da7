//! Arguments of `laggard rehearse`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_model::Nanos;

use crate::completion;

/// The tasks do no more than compute for a known time, every period, at the
/// level that is asked for. What they miss is counted and set against what was
/// predicted from an earlier recording under the same load.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard rehearse robot.toml --load fileio  records 60 s to predict from
  laggard rehearse robot.toml --load fileio --from busy.laggard --duration 5min
  laggard rehearse robot.toml --count-only   runs and counts, no more

The tasks (as for `laggard sched`):
  service = \"fifo:80\"     # or other, softirq, worker; a task may have its own
  cpu = 1                 # default: the last one; a task may have its own
  [[task]]
  name = \"mixer\"
  period = \"5ms\"          # the length of a buffer
  compute = \"1ms\"         # the work of one job, on an undisturbed processor
  buffers = 2             # deadline: buffers - 1 periods
  # deadline (default: the period) instead of buffers

Exit code 1 when a count lies outside its predicted interval.")]
pub(crate) struct RehearseArgs {
    /// Tasks: TOML, or the JSON of rt-app
    #[arg(value_name = "FILE", add = completion::tasks())]
    pub(crate) tasks: PathBuf,
    /// How long the tasks run
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = super::some_time)]
    pub(crate) duration: Nanos,
    /// Load to run meanwhile: a name that `laggard load list` shows, or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", add = completion::loads())]
    pub(crate) load: Option<String>,
    /// Recordings under the same load to predict from [default: one is made first]
    #[arg(long, value_name = "DIR", num_args = 1.., add = completion::recordings())]
    pub(crate) from: Vec<PathBuf>,
    /// How long to record first, where there is no --from
    #[arg(
        long,
        value_name = "TIME",
        default_value = "60s",
        conflicts_with = "from"
    , value_parser = super::some_time)]
    pub(crate) record_first: Nanos,
    /// Folder of the recording that is made meanwhile, which gets the result as
    /// rehearsal.json; a first recording goes beside it [default: a name with the time]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Mean time between two activations of each other service that is measured
    /// meanwhile
    #[arg(short, long, value_name = "TIME", default_value = "10ms")]
    pub(crate) period: Nanos,
    /// Run the tasks and count: no load, no recording, no prediction
    #[arg(long, conflicts_with_all = ["load", "from", "output", "record_first"])]
    pub(crate) count_only: bool,
    /// Every figure of the tasks, and what they did to the services meanwhile
    #[arg(long)]
    pub(crate) all: bool,
    /// Write JSON; `laggard schema rehearse` describes it
    #[arg(long)]
    pub(crate) json: bool,
    /// With --count-only: get ready, then write `ready` and wait for a line
    #[arg(long, hide = true, requires = "count_only")]
    pub(crate) hold: bool,
}
