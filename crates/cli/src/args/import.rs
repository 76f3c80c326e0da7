//! Arguments of `laggard import`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Reads a trace of Windows that WPR or xperf recorded, on any system: how
/// long ISRs and DPCs ran, by driver, against what Microsoft recommends; how long
/// threads that were ready waited for a CPU; how long they waited for pages.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard import trace.etl
  laggard import trace.etl --top 50
  laggard import trace.etl -o trace.laggard
  laggard import trace.etl --json | jq '.drivers[] | select(.over_limit > 0)'

To record one on Windows, as administrator (laggard is not needed there):
  xperf -on PROC_THREAD+LOADER+DPC+INTERRUPT+CSWITCH+DISPATCHER+HARD_FAULTS
  xperf -d trace.etl

Exit code 1 where it tells of no latency; 3 where buffers, more than one event
in 1,000, or a part of the file are lost.")]
pub(crate) struct ImportArgs {
    /// The trace, an .etl file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// So many rows of each table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = some_rows)]
    pub(crate) top: usize,
    /// Make a recording of it here, which must not exist: `laggard show`, `plot`, `check` and
    /// `export` read it
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Write JSON, with all rows; `laggard schema import` describes it
    #[arg(long)]
    pub(crate) json: bool,
}

fn some_rows(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rows @ 1..) => Ok(rows),
        _ => Err("use a number from 1 on".into()),
    }
}
