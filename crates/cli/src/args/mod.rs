//! The command line.

mod answers;
mod attach;
mod bench;
mod compare;
#[cfg(test)]
mod documented;
#[cfg(windows)]
mod driver;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod export;
mod import;
#[cfg(any(target_os = "linux", windows))]
mod keep;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod measuring;
mod named;
#[cfg(target_os = "linux")]
mod plan;
mod plot;
#[cfg(target_os = "linux")]
mod record;
#[cfg(windows)]
mod record_here;
mod rehearsal;
mod rtos;
#[cfg(target_os = "linux")]
mod study;
mod switch;
mod timers;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
pub(crate) use laggard_console::args::EpisodesArg;
use laggard_console::args::some_time;
use laggard_model::text::Unit;
use laggard_model::{CpuList, Nanos, Service, UsagePattern};

pub(crate) use answers::{CheckArgs, ForecastArgs, HorizonArg, PolicyArg, QosArgs, SchedArgs};
pub(crate) use attach::AttachArgs;
pub(crate) use bench::{BenchArgs, BenchCommand};
pub(crate) use compare::{CompareArgs, FactorArg};
#[cfg(windows)]
pub(crate) use driver::{DriverArgs, DriverCommand};
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{BEGIN, parsed};
pub(crate) use export::ExportArgs;
pub(crate) use import::ImportArgs;
#[cfg(any(target_os = "linux", windows))]
pub(crate) use keep::KeepArg;
#[cfg(target_os = "linux")]
pub(crate) use live::TopArgs;
#[cfg(target_os = "linux")]
pub(crate) use measuring::{
    BEGIN, LoadArgs, LoadCommand, MachineCommand, MeasureCommand, ProvokeArgs, parsed,
};
pub(crate) use plot::PlotArgs;
#[cfg(target_os = "linux")]
pub(crate) use record::{RecordArgs, RecordCommand};
#[cfg(windows)]
pub(crate) use record_here::RecordArgs;
pub(crate) use rehearsal::RehearseArgs;
pub(crate) use rtos::RtosArgs;
#[cfg(target_os = "linux")]
pub(crate) use study::{AgainstArg, StudyArgs};
pub(crate) use switch::SwitchArgs;
pub(crate) use timers::{TimerChoice, TimersArgs};

use crate::completion;
use crate::exit::CODES;

/// Measure how late an operating system runs your code, and find out why
#[derive(Debug, Parser)]
#[command(
    name = "laggard",
    version,
    after_help = CODES,
    max_term_width = 80,
    help_template = grouped_help(),
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Commands of the help, grouped by the task of the user. The others write files that
/// programs read.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["record", "attach", "top", "serve"]),
    (
        "Explain",
        &[
            "show", "why", "report", "plot", "compare", "export", "import",
        ],
    ),
    ("Decide", &["qos", "forecast", "check", "sched"]),
    (
        "This machine",
        &["doctor", "bench", "study", "load", "driver"],
    ),
    ("Verify laggard itself", &["provoke", "rehearse"]),
];

/// Returns the template of the help, with the commands of this system in their groups.
fn grouped_help() -> String {
    /// Columns before the summary of a command.
    const INDENT: usize = 12;
    let commands = Command::augment_subcommands(clap::Command::new("laggard"));
    let mut text = String::from("{about-section}\nUsage: laggard <COMMAND>\n");
    for (group, names) in GROUPS {
        let lines: Vec<String> = names
            .iter()
            .filter_map(|name| {
                let about = commands.find_subcommand(name)?.get_about()?;
                Some(format!("  {name:<INDENT$}{about}\n"))
            })
            .collect();
        if !lines.is_empty() {
            text += &format!("\n{group}\n{}", lines.concat());
        }
    }
    text + "\nFiles for other programs: completions, digest, man, schema\n\nOptions:\n{options}{after-help}"
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    Measure(MeasureCommand),
    /// Measure this machine and save a recording
    #[cfg(windows)]
    Record(RecordArgs),
    /// Summarise recordings
    Show(ShowArgs),
    /// Show what caused the late wakeups
    Why(WhyArgs),
    /// Write an HTML or Markdown report
    Report(ReportArgs),
    /// Draw one figure as SVG or PNG
    ///
    /// The numbers are those of `show --json`, and of `qos --json` for mttf.
    Plot(PlotArgs),
    /// Convert a recording to CSV, Parquet, Arrow and other formats
    Export(ExportArgs),
    /// Read a Windows trace (ETW, .etl)
    Import(ImportArgs),
    /// Summarise each recording as one line of JSON (used by laggard-fleet)
    Digest(DigestArgs),
    /// Estimate how often an application will have an xrun
    Qos(QosArgs),
    /// Estimate the worst latency of the next hour, day and week
    Forecast(ForecastArgs),
    /// Compare recordings before and after a change
    Compare(Box<CompareArgs>),
    /// Test recordings against requirements (for CI)
    Check(CheckArgs),
    /// Test whether a task set is schedulable
    Sched(SchedArgs),
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    Machine(MachineCommand),
    /// Test the timers of this machine
    #[cfg(windows)]
    Bench(BenchArgs),
    /// Compare the timers of this machine
    #[cfg(windows)]
    #[command(hide = true)]
    Timers(TimersArgs),
    /// Check what can be measured and which settings hurt latency
    #[cfg(windows)]
    Doctor(DoctorArgs),
    /// Install or remove the driver that sees how late DPCs and kernel threads run
    ///
    /// wdmlat.sys sees what no program can: how late Windows runs a deferred
    /// procedure call (DPC), and a kernel thread that it wakes. It is installed
    /// when you ask for it, and removed whole. It was not tested on real
    /// Windows: try it on a machine that may crash. `record` does not use it yet.
    #[cfg(windows)]
    Driver(DriverArgs),
    /// Write a completion script for a shell to standard output
    #[command(after_help = "Example:\n  laggard completions bash > /etc/bash_completion.d/laggard")]
    Completions {
        /// Shell
        shell: Shell,
    },
    /// Write man pages to a directory
    #[command(after_help = "Example:\n  laggard man /usr/local/share/man/man1")]
    Man {
        /// Directory of the pages
        dir: PathBuf,
    },
    /// Write the JSON schema of an output to standard output
    Schema {
        /// Output that the schema describes
        of: SchemaOf,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaOf {
    /// `show --json`
    Show,
    /// `show --intervals --json`
    Intervals,
    /// `why --json`
    Why,
    /// `why --episode --json`, and the input of `--on-late exec=COMMAND`
    Wakeup,
    /// Input of `attach --on-late exec=COMMAND`
    Cycle,
    /// `why --handlers --json`
    Handlers,
    /// `why --bug --json`
    Bug,
    /// `qos --app NAME --json`
    Qos,
    /// `qos --json` without an application
    QosProfiles,
    /// `qos --list --json`
    QosList,
    /// `forecast --json`
    Forecast,
    /// `sched --json`
    Sched,
    /// `rehearse --json`, and a rehearsal's `rehearsal.json`
    Rehearse,
    /// `compare --json`
    Compare,
    /// `compare --over --json`
    CompareOver,
    /// `check --json`
    Check,
    /// `doctor --json`
    Doctor,
    /// `attach --json`
    Attach,
    /// `bench switch --json`
    Switch,
    /// `bench timers --json`
    Timers,
    /// `bench rtos --json`
    Rtos,
    /// `study --json`
    Study,
    /// `import --json`
    Import,
    /// `digest`
    Digest,
    /// A recording's `manifest.json`
    Manifest,
}

/// Prints one screen: latencies, causes of late wakeups, the fix to try first, and the fit
/// for applications. Several recordings are side by side.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard show busy.laggard                     one screen
  laggard show busy.laggard --app jack-128      the same for one application
  laggard show busy.laggard --all               all figures, losses and warnings
  laggard show idle.laggard busy.laggard        side by side
  laggard show busy.laggard --by cpu --unit us
  laggard show periodic.laggard --intervals --bins 100us
  laggard show busy.laggard --json | jq '.recordings[0].services'")]
pub(crate) struct ShowArgs {
    /// Recordings
    #[arg(required = true, value_name = "DIR", add = completion::recordings())]
    pub(crate) recordings: Vec<PathBuf>,
    /// Write JSON; `laggard schema show` describes it
    #[arg(long)]
    pub(crate) json: bool,
    /// Application to evaluate: a name from `laggard qos --list`, or a TOML file
    /// [default: the one it was recorded for, or the catalogue]
    #[arg(
        long = "app",
        alias = "for",
        value_name = "NAME|FILE",
        conflicts_with_all = ["all", "services", "stages", "by"]
    )]
    pub(crate) application: Option<String>,
    /// Print all figures, stages, histograms, losses, overhead and warnings
    #[arg(long, conflicts_with_all = ["services", "stages"])]
    pub(crate) all: bool,
    /// Print all figures of each service
    #[arg(long, conflicts_with = "stages")]
    pub(crate) services: bool,
    /// Print the stages on the way to each service
    #[arg(long)]
    pub(crate) stages: bool,
    /// Print histograms of the times between the runs of each service, as in the
    /// timer paper of 1999 (not for `--keep tail`)
    #[arg(long, conflicts_with_all = ["application", "all", "services", "stages", "by"])]
    pub(crate) intervals: bool,
    /// Bin width of --intervals, from 1us to 1s
    #[arg(
        long,
        value_name = "TIME",
        default_value = "100us",
        requires = "intervals"
    )]
    pub(crate) bins: Nanos,
    /// Print figures per CPU, load or minute
    #[arg(long, value_name = "WHAT")]
    pub(crate) by: Option<ByArg>,
    /// Unit of times: auto, ns, us or ms
    #[arg(long, value_name = "UNIT", default_value = "auto")]
    pub(crate) unit: Unit,
}

impl ShowArgs {
    /// Returns whether to print figures instead of the first screen. JSON has both.
    pub(crate) const fn is_figures(&self) -> bool {
        !self.json && (self.all || self.services || self.stages)
    }
}

/// Ranks the causes of late wakeups of one service, the most urgent thread first. The times
/// of the causes add up to the latency of all late wakeups; time without a known cause is
/// `unexplained`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard why busy.laggard                   causes for the most urgent thread
  laggard why busy.laggard --service other   causes for another service
  laggard why busy.laggard --all             all services, episodes and gains
  laggard why busy.laggard --episode 17      timeline of one late wakeup
  laggard why busy.laggard --handlers        interrupt handlers, late or not
  laggard why busy.laggard --bug 1 --redact  report for the author of the code
  laggard why busy.laggard --flame late.svg  flame graph
  laggard why busy.laggard --perfetto late.pftrace
                                             trace for https://ui.perfetto.dev")]
pub(crate) struct WhyArgs {
    /// Recording
    #[arg(value_name = "DIR", add = completion::recordings())]
    pub(crate) recording: PathBuf,
    /// Show the timeline of this late wakeup
    #[arg(short, long, value_name = "NUMBER")]
    pub(crate) episode: Option<u64>,
    /// Show this service [default: the most urgent thread that was late]
    #[arg(short, long, value_name = "SERVICE", add = completion::services())]
    pub(crate) service: Option<Service>,
    /// Number of causes and episodes [default: 5; with --all and --json: 20]
    #[arg(long, value_name = "COUNT", value_parser = positive_count)]
    pub(crate) top: Option<usize>,
    /// Show all services, the largest episodes, thresholds, and the long-term
    /// gain from removing each leading cause; with --episode every part and
    /// sample
    #[arg(long, conflicts_with_all = ["flame", "perfetto"])]
    pub(crate) all: bool,
    /// Usage pattern for the long-term gain (--all), as for `forecast`
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) usage: Option<UsagePattern>,
    /// Write JSON; `laggard schema why` describes it, and with --episode `laggard schema
    /// wakeup`
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the handlers that the kernel ran outside threads, late or not. The
    /// recording must be made with `--handlers`
    #[arg(long, conflicts_with_all = ["episode", "service", "usage", "flame", "perfetto"])]
    pub(crate) handlers: bool,
    /// Write the cause with this position in the ranking (from 1) as Markdown,
    /// for the author of a driver or a part of the kernel
    #[arg(
        long,
        value_name = "NUMBER",
        conflicts_with_all = ["episode", "usage", "top", "all", "handlers", "flame", "perfetto"]
    )]
    pub(crate) bug: Option<usize>,
    /// With --bug: leave out names of programs, threads and loads, arguments and
    /// paths, as `laggard export --redact` does
    #[arg(long, requires = "bug", conflicts_with = "episode")]
    pub(crate) redact: bool,
    /// Write a flame graph (SVG): time per cause, culprit and call chain
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) flame: Option<PathBuf>,
    /// Write a trace for Perfetto: late wakeups with stages and causes, and the
    /// threads on each CPU
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) perfetto: Option<PathBuf>,
}

/// What `laggard-fleet` reads of recordings: histograms by the hour, the largest
/// of each minute, who made late activations late, and the machine's settings. No
/// sample is read, so recordings must be made with `--keep tail`. One that cannot
/// be read has a line that says why; the exit code is 0 all the same.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard digest store/*/*.laggard | jq -r '.read.host'
  find store -name manifest.json -printf '%h\\0' | laggard digest --stdin0")]
pub(crate) struct DigestArgs {
    /// Recordings
    #[arg(value_name = "DIR", required_unless_present = "stdin0", add = completion::recordings())]
    pub(crate) recordings: Vec<PathBuf>,
    /// Read more of them from standard input, each ended by a NUL byte
    #[arg(long)]
    pub(crate) stdin0: bool,
    /// Their samples were left where they were recorded: of these nothing is missing
    #[arg(long)]
    pub(crate) without_samples: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ByArg {
    /// Each CPU by itself
    Cpu,
    /// Recordings under the same load together
    Load,
    /// Each minute by itself
    Minute,
}

/// The page is one file that needs no network. Several recordings are set
/// side by side.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard report busy.laggard                   writes report.html
  laggard report idle.laggard busy.laggard -o compared.html
  laggard report busy.laggard --markdown | xclip")]
pub(crate) struct ReportArgs {
    /// Recordings
    #[arg(required = true, value_name = "DIR", add = completion::recordings())]
    pub(crate) recordings: Vec<PathBuf>,
    /// File to write; an existing file is replaced
    /// [default: report.html; with --markdown: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Leave out names of machines, programs, threads and loads, arguments and
    /// paths, as `laggard export --redact` does
    #[arg(long, conflicts_with = "tasks")]
    pub(crate) redact: bool,
    /// Write Markdown instead of HTML
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Application that the report shows first: a name of `laggard qos --list`,
    /// or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with = "markdown", add = completion::applications())]
    pub(crate) app: Option<String>,
    /// Task set to test for schedulability, as for `laggard sched`
    #[arg(short, long, value_name = "FILE", conflicts_with = "markdown", add = completion::tasks())]
    pub(crate) tasks: Option<PathBuf>,
}

#[cfg(not(windows))]
const DOCTOR_EXAMPLES: &str = "\
Exit code 0 when a full recording is possible, 1 when not.

Examples:
  sudo laggard doctor              the worst settings, and missing abilities
  sudo laggard doctor --all        all of them
  laggard doctor busy.laggard --all
                                   as the user of the audio programs: their
                                   limits, and the effects in the recording";
#[cfg(windows)]
const DOCTOR_EXAMPLES: &str = "\
Exit code 0 when a full recording is possible, 1 when not.

Run as administrator it says all that a recording can use.";

#[derive(ClapArgs, Debug)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Recording of this machine: print the effects of audio prerequisites that are
    /// not met
    #[arg(value_name = "DIR", add = completion::recordings())]
    pub(crate) recording: Option<PathBuf>,
    /// CPUs to measure [default: all online that this process may use]
    #[arg(short, long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Try a remedy that is a setting (`timer_migration`, `autogroup`,
    /// `numa_balancing`, watchdog, `rt_throttling`): record with and without it in
    /// turn, print the effect, and restore the setting. `--all` then shows the effect,
    /// which is stored in `/var/lib/laggard`. Takes root
    #[arg(long, value_name = "NAME", conflicts_with_all = ["recording", "cpus", "json"])]
    pub(crate) prove: Option<String>,
    /// Print all abilities, settings and prerequisites
    #[arg(long, conflicts_with_all = ["json", "prove"])]
    pub(crate) all: bool,
    /// Write JSON; `laggard schema doctor` describes it
    #[arg(long)]
    pub(crate) json: bool,
    /// With --prove: options of `laggard compare`, as in `-- --each 1min --load fileio`
    #[arg(last = true, requires = "prove", value_name = "OPTION")]
    pub(crate) options: Vec<OsString>,
}

/// Parses a number of rows.
fn positive_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "use a whole number, 1 or more".into())
}
