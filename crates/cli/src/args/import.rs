//! Arguments of `laggard import`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard import trace.etl               worst latencies and routines
  laggard import trace.etl --all         all tables, 10 rows each
  laggard import trace.etl --top 50      all tables, 50 rows each
  laggard import trace.etl -o trace.laggard
  laggard import trace.etl --json | jq '.drivers[] | select(.over_limit > 0)'

To record a trace on Windows, as administrator (laggard is not needed there):
  xperf -on PROC_THREAD+LOADER+DPC+INTERRUPT+CSWITCH+DISPATCHER+HARD_FAULTS
  xperf -d trace.etl

Exit code: 1 if the trace has no latencies; 3 if buffers, more than one event in
1,000, or a part of the file were lost.")]
pub(crate) struct ImportArgs {
    /// Trace, an .etl file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print all tables
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,
    /// Print all tables with at most this number of rows [default: 10]
    #[arg(long, value_name = "COUNT", value_parser = super::positive_count)]
    pub(crate) top: Option<usize>,
    /// Write a recording to this directory, which must not exist; `laggard show`,
    /// `check` and `export` read it
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Write Markdown with all tables
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Write JSON with all rows, described by `laggard schema import`
    #[arg(long)]
    pub(crate) json: bool,
}
