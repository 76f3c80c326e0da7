//! The commands that measure, or change, the machine they run on.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args as ClapArgs, Parser as _, Subcommand};
use laggard_model::Nanos;
use laggard_serve::ServeArgs;
use laggard_workload::disturb::FaultKind;

use super::{
    Args, AttachArgs, BenchArgs, DoctorArgs, RecordCommand, RehearseArgs, RtosArgs, StudyArgs,
    SwitchArgs, TimersArgs, TopArgs, some_time,
};
use crate::completion;

/// What to type, for who typed `laggard` alone.
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
/// The exit code, if it is wrong or asks for help.
pub(crate) fn parsed() -> Result<Args, ExitCode> {
    laggard_console::args::parse(|words| Args::try_parse_from(words).map_err(explained))
}

/// The same error; of a command that there is on Windows, that it is there.
fn explained(err: clap::Error) -> clap::Error {
    match err.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if name == "driver" => clap::Error::raw(
            ErrorKind::InvalidSubcommand,
            "`laggard driver` is not on this system: it is about a driver for Windows; here the kernel needs none, see `laggard doctor`\n",
        ),
        _ => err,
    }
}

/// Commands that make recordings.
#[derive(Debug, Subcommand)]
pub(crate) enum MeasureCommand {
    /// Measure this machine and save a recording
    Record(Box<RecordCommand>),
    /// Show latencies live
    ///
    /// Measures as `record` does and shows the latencies. It records only with
    /// --output, or after the key s.
    #[command(mut_arg("output", |arg| arg.help("Record from the start to this directory, which must not exist")))]
    #[command(mut_arg("duration", |arg| arg.help("Duration [default: until q, Ctrl-C, or the end of the command after `--`]")))]
    #[command(mut_arg("quiet", |arg| arg.help("Print no summary at the end")))]
    Top(Box<TopArgs>),
    /// Measure continuously; export to Prometheus and OTLP
    ///
    /// Measures as `record` does, at a rate that permits permanent use, until
    /// Ctrl-C or SIGTERM. Serves /metrics (text, and native histograms),
    /// /episodes (late wakeups, JSON), /healthz, and a page for a browser.
    Serve(Box<ServeArgs>),
}

/// Commands that test this machine or make it late.
#[derive(Debug, Subcommand)]
pub(crate) enum MachineCommand {
    /// Simulate an application and compare its deadline misses with `qos`
    Rehearse(RehearseArgs),
    /// Check what can be measured and which settings hurt latency
    Doctor(DoctorArgs),
    /// Measure the threads of a running program
    Attach(AttachArgs),
    /// Test timers, context switches or real-time properties
    Bench(BenchArgs),
    /// Compare the timers of this machine
    #[command(hide = true)]
    Timers(TimersArgs),
    /// Measure context switches
    #[command(hide = true)]
    Switch(SwitchArgs),
    /// Test the criteria of a real-time operating system
    #[command(hide = true)]
    Rtos(RtosArgs),
    /// Repeat the experiments of a paper
    Study(StudyArgs),
    /// List, show or run background loads
    Load(LoadArgs),
    /// Inject a known fault
    ///
    /// This makes the machine late on purpose. It ends after --duration or with
    /// Ctrl-C, and then everything is as before; docs/reference/faults.md describes
    /// each fault and its limits.
    Provoke(ProvokeArgs),
}

#[derive(ClapArgs, Debug)]
pub(crate) struct LoadArgs {
    #[command(subcommand)]
    pub(crate) command: LoadCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// List the loads that are part of the program
    List,
    /// Print what a load of real applications does, as TOML to start from
    Show {
        /// Its name, or a TOML file
        #[arg(add = completion::loads())]
        name: String,
    },
    /// Run a load until Ctrl-C, then print its throughput as JSON
    Run {
        /// Its name, or a TOML file
        #[arg(add = completion::loads())]
        name: String,
        /// Only set it up, then write `ready` and wait for a line of input
        #[arg(long, hide = true)]
        hold: bool,
    },
}

const PROVOKE_EXAMPLES: &str = "\
Examples:
  laggard provoke softirq     7 ms every 5 s, as DEC's Ethernet driver of 1999
  laggard provoke softirq --length 17ms --every 10s -d 5min
  laggard provoke irq --length 2ms --every 1s --cpu 1 --json hits.jsonl
  laggard provoke throttle --pid 4242 --length 80ms --every 100ms";

#[derive(ClapArgs, Debug)]
#[command(after_help = PROVOKE_EXAMPLES)]
pub(crate) struct ProvokeArgs {
    /// The fault
    #[arg(value_parser = kinds(), value_name = "KIND")]
    pub(crate) kind: FaultKind,
    /// Length of a hit [default: 7ms; throttle: 40ms]
    #[arg(short, long, value_name = "TIME")]
    pub(crate) length: Option<Nanos>,
    /// Time from one hit to the next [default: 5s; throttle: 100ms; tick: 1ms]
    #[arg(short, long, value_name = "TIME")]
    pub(crate) every: Option<Nanos>,
    /// Where [default: the last CPU that is online]
    #[arg(short, long, value_name = "CPU")]
    pub(crate) cpu: Option<u32>,
    /// Duration of the fault
    #[arg(short, long, alias = "for", value_name = "TIME", default_value = "60s", value_parser = some_time)]
    pub(crate) duration: Nanos,
    /// Process that is stopped too, again and again; only for `throttle`
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Write each hit as a line of JSON to this file (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Reads the name of a fault; the help shows what each does.
fn kinds() -> impl TypedValueParser<Value = FaultKind> {
    let known = FaultKind::ALL.map(|kind| PossibleValue::new(kind.name()).help(kind.about()));
    PossibleValuesParser::new(known).try_map(|name| name.parse::<FaultKind>())
}
