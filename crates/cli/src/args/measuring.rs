//! Commands that measure or disturb the machine that they run on.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args as ClapArgs, Parser as _, Subcommand};
use laggard_model::Nanos;
#[cfg(feature = "serve")]
use laggard_serve::ServeArgs;
use laggard_workload::disturb::FaultKind;

use super::{
    Args, AttachArgs, BenchArgs, DoctorArgs, LoadArgs, RecordCommand, RehearseArgs, RtosArgs,
    StudyArgs, SwitchArgs, TimersArgs, TopArgs, some_time,
};

/// Text that `laggard` without arguments prints.
pub(crate) const BEGIN: &str = "\
laggard measures how late this machine runs your code, and finds out why.

  laggard record                     measure for 30 s
  laggard record --app jack-128      the same, and evaluate JACK at 128 frames
  laggard record --load fileio       measure while cached files are read
  laggard record -- make -j8         measure while a command runs
  laggard attach PID                 measure the threads of a running program
  laggard doctor                     check which settings hurt latency

Run it as root to measure everything. Then: laggard why, qos, report.
All commands: laggard --help
";

/// Parses the command line.
///
/// # Errors
/// Returns the exit code if the command line is wrong or asks for help.
pub(crate) fn parsed() -> Result<Args, ExitCode> {
    laggard_console::args::parse(|words| Args::try_parse_from(words).map_err(explained))
}

/// Replaces the error of a command that exists only on Windows, or that was left out.
fn explained(err: clap::Error) -> clap::Error {
    match err.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if name == "driver" => clap::Error::raw(
            ErrorKind::InvalidSubcommand,
            "`laggard driver` is only available on Windows; on Linux, see `laggard doctor`\n",
        ),
        Some(ContextValue::String(name)) if name == "serve" => clap::Error::raw(
            ErrorKind::InvalidSubcommand,
            "`laggard serve` is not part of this build; use the program `laggard-serve`\n",
        ),
        _ => err,
    }
}

/// Commands that make recordings.
#[derive(Debug, Subcommand)]
pub(crate) enum MeasureCommand {
    /// Measure this machine and save a recording
    ///
    /// Measures until --duration has passed, the command after `--` ends, or Ctrl-C is
    /// pressed. The recording is complete in each case.
    Record(Box<RecordCommand>),
    /// Show latencies live
    ///
    /// Measures like `record` and shows the latencies. Records only with --output, or
    /// after the key s.
    #[command(mut_arg("output", |arg| arg.help("Record from the start to this directory, which must not exist")))]
    #[command(mut_arg("duration", |arg| arg.help("Duration [default: until q, Ctrl-C, or the end of the command after `--`]")))]
    #[command(mut_arg("quiet", |arg| arg.help("Print no summary at the end")))]
    Top(Box<TopArgs>),
    /// Measure continuously; export to Prometheus and OTLP
    ///
    /// Measures like `record`, at a rate that permits permanent use, until Ctrl-C or
    /// SIGTERM. Serves /metrics (text, and native histograms), /episodes (late wakeups,
    /// JSON), /healthz, and an HTML page.
    #[cfg(feature = "serve")]
    Serve(Box<ServeArgs>),
}

/// Commands that test or disturb this machine.
#[derive(Debug, Subcommand)]
pub(crate) enum MachineCommand {
    /// Simulate an application and compare its deadline misses with `qos`
    ///
    /// Runs the tasks of the file: each computes for a known time in every period, with
    /// its service. Counts the deadline misses, and compares them with the prediction from
    /// an earlier recording under the same load.
    Rehearse(RehearseArgs),
    /// Check what can be measured and which settings hurt latency
    Doctor(DoctorArgs),
    /// Measure the threads of a running program
    ///
    /// Measures the cycles of the threads of a running program, or of a command, and shows
    /// which cycles missed their deadline and why. The program is not changed. Threads and
    /// processes that it starts are included.
    Attach(AttachArgs),
    /// Test timers, context switches or real-time properties
    Bench(BenchArgs),
    /// Compare the timers of this machine
    ///
    /// Waits with each timer for the period, then for single times of 1 to 3 ms that start at
    /// random, and shows which timers expire as requested. One thread uses one timer at a
    /// time.
    #[command(hide = true)]
    Timers(TimersArgs),
    /// Measure context switches
    ///
    /// Measures how long a CPU takes to switch to the next of several threads of equal
    /// priority. Each thread reads the clock just before it switches, and the next thread
    /// reads it as its first action. Half of the CPU time stays free for other programs.
    #[command(hide = true)]
    Switch(SwitchArgs),
    /// Test the criteria of a real-time operating system
    #[command(hide = true)]
    Rtos(RtosArgs),
    /// Repeat the experiments of a paper
    ///
    /// Records under the loads of a paper, and prints the paper's tables for the services
    /// of this system. The figures are on an HTML page in the directory of the recordings.
    /// The same command continues an interrupted study.
    Study(StudyArgs),
    /// List, show or run background loads
    Load(LoadArgs),
    /// Inject a known fault
    ///
    /// Makes this machine late on purpose. The fault ends after --duration or with Ctrl-C,
    /// and laggard restores the previous state. docs/reference/faults.md describes each
    /// fault and its limits.
    Provoke(ProvokeArgs),
}

const PROVOKE_EXAMPLES: &str = "\
Examples:
  laggard provoke softirq     7 ms every 5 s, like DEC's Ethernet driver of 1999
  laggard provoke softirq --length 17ms --every 10s -d 5min
  laggard provoke irq --length 2ms --every 1s --cpu 1 --json hits.jsonl
  laggard provoke throttle --pid 4242 --length 80ms --every 100ms";

#[derive(ClapArgs, Debug)]
#[command(after_help = PROVOKE_EXAMPLES)]
pub(crate) struct ProvokeArgs {
    /// Fault to inject
    #[arg(value_parser = kinds(), value_name = "KIND")]
    pub(crate) kind: FaultKind,
    /// Length of each hit [default: 7ms; throttle: 40ms]
    #[arg(short, long, value_name = "TIME")]
    pub(crate) length: Option<Nanos>,
    /// Time from one hit to the next [default: 5s; throttle: 100ms; tick: 1ms]
    #[arg(short, long, value_name = "TIME")]
    pub(crate) every: Option<Nanos>,
    /// CPU to disturb [default: the last online CPU]
    #[arg(short, long, value_name = "CPU")]
    pub(crate) cpu: Option<u32>,
    /// Duration of the fault
    #[arg(short, long, alias = "for", value_name = "TIME", default_value = "60s", value_parser = some_time)]
    pub(crate) duration: Nanos,
    /// Process to throttle as well; only for `throttle`
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Write each hit as a line of JSON to this file (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Reads the name of a fault; the help shows what each does.
fn kinds() -> impl TypedValueParser<Value = FaultKind> {
    let values = FaultKind::ALL.map(|kind| PossibleValue::new(kind.name()).help(kind.about()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<FaultKind>())
}
