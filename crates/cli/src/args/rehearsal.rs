//! Arguments of `laggard rehearse`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_model::Nanos;

use crate::completion;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard rehearse robot.toml --load fileio  record 60 s to predict from first
  laggard rehearse robot.toml --load fileio --from busy.laggard --duration 5min
  laggard rehearse robot.toml --count-only   only run the tasks and count

The tasks (as for `laggard sched`):
  service = \"fifo:80\"     # or other, softirq, worker; a task may have its own
  cpu = 1                 # default: the last one; a task may have its own
  [[task]]
  name = \"mixer\"
  period = \"5ms\"          # the length of a buffer
  compute = \"1ms\"         # the work of one job, on an undisturbed processor
  buffers = 2             # deadline: buffers - 1 periods
  # deadline (default: the period) instead of buffers

Exit code 1 if a count lies outside its prediction interval.")]
pub(crate) struct RehearseArgs {
    /// Tasks: TOML, or the JSON of rt-app
    #[arg(value_name = "FILE", add = completion::tasks())]
    pub(crate) tasks: PathBuf,
    /// Run time of the tasks
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = super::some_time)]
    pub(crate) duration: Nanos,
    /// Load to run at the same time: a name from `laggard load list`, or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", add = completion::loads())]
    pub(crate) load: Option<String>,
    /// Recordings under the same load to predict from [default: record one first]
    #[arg(long, value_name = "DIR", num_args = 1.., add = completion::recordings())]
    pub(crate) from: Vec<PathBuf>,
    /// Without --from: length of the first recording
    #[arg(
        long,
        value_name = "TIME",
        default_value = "60s",
        conflicts_with = "from"
    , value_parser = super::some_time)]
    pub(crate) record_first: Nanos,
    /// Directory for the recording of the run, with the result as rehearsal.json. The first
    /// recording is next to it [default: a name with the time]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Mean time between two samples of each other service during the run
    #[arg(short, long, value_name = "TIME", default_value = "10ms")]
    pub(crate) period: Nanos,
    /// Only run the tasks and count misses, without load, recording and prediction
    #[arg(long, conflicts_with_all = ["load", "from", "output", "record_first"])]
    pub(crate) count_only: bool,
    /// Show all figures of the tasks, and their effect on the services
    #[arg(long)]
    pub(crate) all: bool,
    /// Write Markdown, for an issue tracker
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Write JSON, described by `laggard schema rehearse`
    #[arg(long)]
    pub(crate) json: bool,
    /// With --count-only: get ready, then write `ready` and wait for a line
    #[arg(long, hide = true, requires = "count_only")]
    pub(crate) hold: bool,
}
