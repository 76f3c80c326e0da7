//! Arguments of `laggard export`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_view::export::ExportFormat;

use super::named::named;
use crate::completion;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard export busy.laggard --format csv | head
  laggard export busy.laggard --format parquet -o busy.parquet
  laggard export busy.laggard --format arrow-stream -o - | python3 read.py
  laggard export busy.laggard --format prometheus -o l.prom --force
  laggard export busy.laggard --format hdr > busy.hlog
  laggard export busy.laggard --redact -o public.laggard")]
pub(crate) struct ExportArgs {
    /// Recording
    #[arg(value_name = "DIR", add = completion::recordings())]
    pub(crate) recording: PathBuf,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_parser = named::<ExportFormat>(), required_unless_present = "redact")]
    pub(crate) format: Option<ExportFormat>,
    /// Write a recording for publication to the directory --output: names of machines,
    /// programs, threads and loads, arguments and paths are replaced, each by the same
    /// substitute everywhere
    #[arg(long, conflicts_with_all = ["format", "force"], requires = "output")]
    pub(crate) redact: bool,
    /// File to write, which must not exist; `-` is standard output [default: standard
    /// output, except for parquet and arrow]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}
