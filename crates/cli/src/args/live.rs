//! Arguments of the live view.

use clap::Args as ClapArgs;
use laggard_console::args::OnLateArgs;
use laggard_model::Nanos;

use super::RecordArgs;

const TOP_EXAMPLES: &str = "\
Examples:
  laggard top                                   without a load; q quits
  laggard top --load fileio                     under a built-in load
  laggard top -o live.laggard                   with a recording
  laggard top --services fifo:90 --threshold 100us
  laggard top --batch --every 5s --duration 1min | tee latencies.txt
  laggard top -- make -j8                       while a command runs

The key ? shows all keys; s starts a recording.";

#[derive(ClapArgs, Debug)]
#[command(after_help = TOP_EXAMPLES)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    /// Print lines of text instead of a screen; default if standard output is not a
    /// terminal
    #[arg(short, long)]
    pub(crate) batch: bool,
    /// With --batch: interval between reports
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) every: Nanos,
    #[command(flatten)]
    pub(crate) late: OnLateArgs,
}
