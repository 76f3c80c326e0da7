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
mod figure;
mod import;
#[cfg(any(target_os = "linux", windows))]
mod keep;
#[cfg(target_os = "linux")]
mod live;
#[cfg(any(target_os = "linux", windows))]
mod load;
#[cfg(target_os = "linux")]
mod measuring;
mod named;
#[cfg(target_os = "linux")]
mod plan;
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
use laggard_console::args::some_time;
use laggard_model::text::Unit;
use laggard_model::{CpuList, Nanos, Service, UsagePattern};

pub(crate) use answers::{CheckArgs, ForecastArgs, QosArgs, SchedArgs};
pub(crate) use attach::AttachArgs;
pub(crate) use bench::{BenchArgs, BenchCommand};
pub(crate) use compare::{CompareArgs, FactorArg};
#[cfg(windows)]
pub(crate) use driver::{DriverArgs, DriverCommand};
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{BEGIN, parsed};
pub(crate) use export::ExportArgs;
pub(crate) use figure::FigureArgs;
pub(crate) use import::ImportArgs;
#[cfg(target_os = "linux")]
pub(crate) use live::TopArgs;
#[cfg(any(target_os = "linux", windows))]
pub(crate) use load::{LoadArgs, LoadCommand};
#[cfg(target_os = "linux")]
pub(crate) use measuring::{BEGIN, MachineCommand, MeasureCommand, ProvokeArgs, parsed};
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

/// Commands in `--help`, grouped by task. Commands that write files for other programs are
/// not in a group.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["record", "attach", "top", "serve"]),
    (
        "Explain",
        &["show", "why", "report", "compare", "export", "import"],
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
    ///
    /// Measures how late threads run that wait for a timer: from the requested time to the
    /// first instruction of the thread. Ends after --duration or with Ctrl-C; the recording is
    /// complete in each case. Not tested on real Windows.
    #[cfg(windows)]
    Record(RecordArgs),
    /// Summarise recordings
    ///
    /// Prints one screen: latencies, causes of late wakeups, the fix to try first, and the
    /// fit for applications. Several recordings are side by side.
    Show(ShowArgs),
    /// Show what caused the late wakeups
    ///
    /// Ranks the causes of the late wakeups of one service, by default of the most urgent
    /// thread that was late. The times of the causes add up to the latency of all its late
    /// wakeups; time without a known cause is `unexplained`.
    Why(WhyArgs),
    /// Write an HTML or Markdown report, or one figure
    ///
    /// The HTML report is one file that works offline. Several recordings are side by side. A
    /// figure has the numbers of `show --json`, mttf the numbers of `qos --json`.
    Report(ReportArgs),
    /// Convert a recording to CSV, Parquet, Arrow and other formats
    ///
    /// Each sample is a row: the expiry, its latency, its stages, whether it was missed, and
    /// whether it was still waiting at the end. docs/reference/recording-format.md describes
    /// the columns.
    Export(ExportArgs),
    /// Read a Windows trace (ETW, .etl)
    ///
    /// Reads a trace that WPR or xperf recorded on Windows, on any system. Prints the
    /// durations of ISRs and DPCs per driver, compared with Microsoft's limits, how long
    /// ready threads waited for a CPU, and how long threads waited for pages.
    Import(ImportArgs),
    /// Summarise each recording as one line of JSON (used by laggard-fleet)
    ///
    /// A line has hourly histograms, the max of each minute, the causes of late wakeups, and
    /// the settings of the machine. Samples are not read, so recordings must be made with
    /// `--keep tail`. The line of an unreadable recording has the reason; the exit code is
    /// still 0.
    Digest(DigestArgs),
    /// Estimate how often an application will have an xrun
    ///
    /// An xrun is a buffer that is not filled in time. Name an application of the catalogue
    /// (--list) or a TOML file, or give its buffers. Without an application, laggard
    /// evaluates seven typical ones. Recordings under the same load are evaluated together.
    /// FIT: at most one burst of xruns per hour (95 % confidence).
    Qos(QosArgs),
    /// Estimate the worst latency of the next hour, day and week
    ///
    /// Prints the chance of a latency above the recorded max, the latency that half and 9 of
    /// 10 horizons do not exceed (rank-based, without a model), and the return level: the
    /// latency that is exceeded once per horizon of use on average. laggard prints no return
    /// level that the recordings do not support.
    Forecast(ForecastArgs),
    /// Compare recordings before and after a change
    ///
    /// Side A has the recordings before the change, side B the recordings after it. A verdict
    /// needs at least four recordings per side, made in turn (A B A B B A B A). All need the
    /// same services, period, dither, stages and load.
    ///
    /// With --run, --before or --factor sysctl, laggard makes the recordings in random order.
    /// With six or more rounds it also evaluates in between, and ends if every series is
    /// decided. It restores the machine, also after Ctrl-C or a kill.
    Compare(Box<CompareArgs>),
    /// Test recordings against requirements (for CI)
    ///
    /// A requirement passes if the whole confidence interval of the observed figure is within
    /// the limit, and fails if the whole interval is beyond it. Otherwise it is UNKNOWN, and
    /// the output states how long to record. Lost samples count as late in the upper limit. A
    /// stall that had not ended fails a requirement that it exceeds.
    Check(CheckArgs),
    /// Test whether a task set is schedulable
    ///
    /// Tests whether each task meets its deadline with the recorded latency of the services
    /// that run the tasks. The verdict is SCHEDULABLE, NOT SCHEDULABLE or UNKNOWN.
    Sched(SchedArgs),
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    Machine(MachineCommand),
    /// Test the timers of this machine
    #[cfg(windows)]
    Bench(BenchArgs),
    /// Compare the timers of this machine
    ///
    /// Waits with each timer for the period, then for single times of 1 to 3 ms that start at
    /// random, and shows which timers expire as requested. One thread uses one timer at a
    /// time.
    #[cfg(windows)]
    #[command(hide = true)]
    Timers(TimersArgs),
    /// List or run the loads that are part of laggard
    #[cfg(windows)]
    Load(LoadArgs),
    /// Check what can be measured and which settings hurt latency
    #[cfg(windows)]
    Doctor(DoctorArgs),
    /// Install or remove the driver that measures DPCs and kernel threads
    ///
    /// wdmlat.sys measures how late Windows runs a deferred procedure call (DPC), and a
    /// kernel thread that the DPC wakes. Programs cannot measure this. laggard installs the
    /// driver only with this command, and removes it completely. It was not tested on real
    /// Windows: use a machine that may crash. `record` does not use it yet.
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
    /// Write JSON, described by `laggard schema show`
    #[arg(long)]
    pub(crate) json: bool,
    /// Application to evaluate: a name from `laggard qos --list`, or a TOML file
    /// [default: --app of `laggard record`, or the catalogue]
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
    /// Print the stages of the wakeup path of each service
    #[arg(long)]
    pub(crate) stages: bool,
    /// Print histograms of the intervals between the runs of each service, as in the timer
    /// paper of 1999 (not for recordings with `--keep tail`)
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
    /// Returns true if figures replace the first screen. JSON has both.
    pub(crate) const fn is_figures(&self) -> bool {
        !self.json && (self.all || self.services || self.stages)
    }
}

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
    /// Show all services, the largest episodes, thresholds, and the long-term gain from
    /// removing each leading cause; with --episode, every part and sample
    #[arg(long, conflicts_with_all = ["flame", "perfetto"])]
    pub(crate) all: bool,
    /// Usage pattern for the long-term gain (--all), as for `forecast`
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) usage: Option<UsagePattern>,
    /// Write JSON, described by `laggard schema why`; with --episode by `laggard schema
    /// wakeup`
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the handlers that the kernel ran outside threads, late or not. The recording
    /// must be made with `laggard record --handlers`
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

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard digest store/*/*.laggard | jq -r '.read.host'
  find store -name manifest.json -printf '%h\\0' | laggard digest --stdin0")]
pub(crate) struct DigestArgs {
    /// Recordings
    #[arg(value_name = "DIR", required_unless_present = "stdin0", add = completion::recordings())]
    pub(crate) recordings: Vec<PathBuf>,
    /// Read more paths from standard input, each terminated by a NUL byte
    #[arg(long)]
    pub(crate) stdin0: bool,
    /// Do not report missing samples: they stayed on the machines that recorded them
    #[arg(long)]
    pub(crate) without_samples: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ByArg {
    /// Each CPU separately
    Cpu,
    /// Recordings under the same load together
    Load,
    /// Each minute separately
    Minute,
}

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard report busy.laggard                   writes report.html
  laggard report idle.laggard busy.laggard -o compared.html
  laggard report busy.laggard --markdown | xclip
  laggard report busy.laggard --figure distribution -o busy.svg
  laggard report idle.laggard busy.laggard --figure distribution -o both.png
  laggard report busy.laggard --figure stages --service fifo:90 -o stages.svg
  laggard report busy.laggard --figure mttf --app video-call -o mttf.svg")]
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
    /// Application that the report shows first, and that --figure mttf shows
    /// [default: jack-128]: a name from `laggard qos --list`, or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with = "markdown", add = completion::applications())]
    pub(crate) app: Option<String>,
    /// Task set to test for schedulability, as for `laggard sched`
    #[arg(short, long, value_name = "FILE", conflicts_with = "markdown", add = completion::tasks())]
    pub(crate) tasks: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) figure: FigureArgs,
}

#[cfg(not(windows))]
const DOCTOR_EXAMPLES: &str = "\
Exit code: 0 if a full recording is possible, 1 if not.

Examples:
  sudo laggard doctor              the worst settings, and missing abilities
  sudo laggard doctor --all        all settings and abilities
  laggard doctor busy.laggard --all
                                   as the user of the audio programs: their
                                   limits, and the effects in the recording";
#[cfg(windows)]
const DOCTOR_EXAMPLES: &str = "\
Exit code: 0 if a full recording is possible, 1 if not.

Run it as administrator to see everything that a recording can use.";

#[derive(ClapArgs, Debug)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Recording of this machine: print the effects of unmet audio prerequisites
    #[arg(value_name = "DIR", add = completion::recordings())]
    pub(crate) recording: Option<PathBuf>,
    /// CPUs to measure [default: all online CPUs that this process may use]
    #[arg(short, long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Test a recommended setting (`timer_migration`, `autogroup`, `numa_balancing`,
    /// watchdog, `rt_throttling`): record with and without it in turn, print the effect,
    /// and restore the setting. laggard stores the effect in `/var/lib/laggard`, and
    /// `--all` shows it. Needs root
    #[arg(long, value_name = "NAME", conflicts_with_all = ["recording", "cpus", "json"])]
    pub(crate) prove: Option<String>,
    /// Print all abilities, settings and prerequisites
    #[arg(long, conflicts_with_all = ["json", "prove"])]
    pub(crate) all: bool,
    /// Write JSON, described by `laggard schema doctor`
    #[arg(long)]
    pub(crate) json: bool,
    /// With --prove: options of `laggard compare`, as in `-- --each 1min --load fileio`
    #[arg(last = true, requires = "prove", value_name = "OPTION")]
    pub(crate) options: Vec<OsString>,
}

/// Parses a positive number of rows.
fn positive_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "use a whole number, 1 or more".into())
}
