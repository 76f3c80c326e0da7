//! Arguments of the live view.

use clap::Args as ClapArgs;
use laggard_console::args::OnLateArgs;
use laggard_model::Nanos;

use super::RecordArgs;

const TOP_EXAMPLES: &str = "\
Examples:
  laggard top                                   this machine as it is; q ends it
  laggard top --load fileio                     under a built-in load
  laggard top -o live.laggard                   and record it from the start
  laggard top --services fifo:90 --threshold 100us
  laggard top --batch --every 5s --duration 1min | tee latencies.txt
  laggard top -- make -j8                       while a command of yours runs

Keys are explained on the screen; ? shows them all. The key s begins to record.";

#[derive(ClapArgs, Debug)]
#[command(after_help = TOP_EXAMPLES)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    /// Print lines of text instead of drawing, as when standard output is no
    /// terminal
    #[arg(short, long)]
    pub(crate) batch: bool,
    /// With --batch: how often to print
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) every: Nanos,
    #[command(flatten)]
    pub(crate) late: OnLateArgs,
}
