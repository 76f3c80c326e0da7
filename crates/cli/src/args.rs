//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use laggard_measure::Source;
use laggard_model::{CpuList, Nanos, Service};
use laggard_report::Unit;

use crate::exit::CODES;

/// How late your operating system runs your code, who made it late, and how
/// often your application will miss its deadlines because of it.
#[derive(Debug, Parser)]
#[command(name = "laggard", version, after_help = CODES, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure this machine and keep what was seen
    Record(RecordArgs),
    /// Say what recordings show
    Show(ShowArgs),
    /// Say what can be measured here, and what spoils latency
    Doctor(DoctorArgs),
    /// List built-in loads, or run one without measuring
    Load(LoadArgs),
    /// Write a completion script for a shell to standard output
    #[command(after_help = "Example:\n  laggard completions bash > /etc/bash_completion.d/laggard")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write man pages to a folder
    #[command(after_help = "Example:\n  laggard man /usr/local/share/man/man1")]
    Man {
        /// The folder
        dir: PathBuf,
    },
    /// Write the JSON schema of an output to standard output
    Schema {
        /// Of which output
        of: SchemaOf,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaOf {
    /// `show --json`
    Show,
    /// A recording's `manifest.json`
    Manifest,
}

const RECORD_EXAMPLES: &str = "\
Examples:
  laggard record                                30 s of this machine as it is
  laggard record --load fileio -o busy.laggard  under a built-in load
  laggard record --cpus 2,3 --period 100us      two CPUs, 10,000 times a second
  laggard record --services fifo:80 --duration 10min
  laggard record -- make -j8                    while a command of yours runs";

/// Ends at --duration, when the command after `--` ends, or with Ctrl-C; the
/// recording is complete each time.
#[derive(ClapArgs, Debug)]
#[command(after_help = RECORD_EXAMPLES)]
pub(crate) struct RecordArgs {
    /// Folder to write, which must not exist [default: a name with the time]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// How long [default: 30s, or until the command after `--` ends]
    #[arg(short, long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,
    /// CPUs to measure, as in `0-3,6` [default: all online]
    #[arg(short, long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Services to measure; those named must all be possible
    /// [default: irq,softirq,worker,fifo:90,fifo:50,other, as far as possible]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) services: Option<Vec<Service>>,
    /// Mean time between two activations of a service on a CPU
    #[arg(short, long, value_name = "TIME", default_value = "1ms")]
    pub(crate) period: Nanos,
    /// Latency from which on an activation is shown as exceeding
    #[arg(short, long, value_name = "TIME", default_value = "1ms")]
    pub(crate) threshold: Nanos,
    /// Keep every sample, or histograms and the tail
    #[arg(short, long, value_name = "WHAT", default_value = "all")]
    pub(crate) keep: KeepArg,
    /// Request expiries on a fixed grid instead of spreading them, which lets
    /// a hidden tick of the kernel hide
    #[arg(long)]
    pub(crate) no_dither: bool,
    /// Keep CPUs from idle states while measuring (what cyclictest does
    /// unasked); undone at the end, also after a crash
    #[arg(long)]
    pub(crate) hold_cpu_awake: bool,
    /// Built-in load to run meanwhile; `laggard load list` shows them
    #[arg(short, long, value_name = "NAME", conflicts_with = "command")]
    pub(crate) load: Option<String>,
    /// CPUs to run the load on [default: all]
    #[arg(long, value_name = "LIST")]
    pub(crate) load_cpus: Option<CpuList>,
    /// What begins an activation: `timer`, or the interrupt of a UIO device
    /// that is raised on time, as in `uio:/dev/uio0`; then --services names
    /// one thread service [default there: fifo:90] and --cpus one CPU
    #[arg(long, value_name = "WHAT", default_value = "timer")]
    pub(crate) source: SourceArg,
    /// What to measure with
    #[arg(long, value_name = "WHAT", default_value = "best")]
    pub(crate) backend: BackendArg,
    /// Show neither progress nor result
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Command to run meanwhile
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum KeepArg {
    /// Every sample
    All,
    /// Histograms by the hour, the largest by the minute, and the tail
    Tail,
}

#[derive(Clone, Debug)]
pub(crate) enum BackendArg {
    Best,
    Bpf,
    User,
    Fake(PathBuf),
}

#[derive(Clone, Debug)]
pub(crate) struct SourceArg(pub(crate) Source);

impl std::str::FromStr for SourceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("uio:")) {
            ("timer", _) => Ok(Self(Source::Timer)),
            (_, Some(device)) if !device.is_empty() => Ok(Self(Source::Uio(device.into()))),
            _ => Err("use timer or uio:DEVICE, as in uio:/dev/uio0".into()),
        }
    }
}

impl std::str::FromStr for BackendArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("fake:")) {
            ("best", _) => Ok(Self::Best),
            ("bpf", _) => Ok(Self::Bpf),
            ("user", _) => Ok(Self::User),
            (_, Some(script)) => Ok(Self::Fake(script.into())),
            _ => Err("use best, bpf, user (no BPF, no root) or fake:SCRIPT.toml".into()),
        }
    }
}

/// Several recordings are set side by side.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard show busy.laggard
  laggard show idle.laggard busy.laggard        side by side
  laggard show busy.laggard --by cpu --unit us
  laggard show busy.laggard --json | jq '.recordings[0].services'")]
pub(crate) struct ShowArgs {
    /// Recordings
    #[arg(required = true, value_name = "DIR")]
    pub(crate) recordings: Vec<PathBuf>,
    /// Write JSON; `laggard schema show` describes it
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep CPUs, loads or minutes apart
    #[arg(long, value_name = "WHAT")]
    pub(crate) by: Option<ByArg>,
    /// Unit of times: auto, ns, us or ms
    #[arg(long, value_name = "UNIT", default_value = "auto")]
    pub(crate) unit: Unit,
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

#[derive(ClapArgs, Debug)]
#[command(after_help = "Exit code 0 when a full recording is possible, 1 when not.")]
pub(crate) struct DoctorArgs {
    /// CPUs that are to be measured [default: all online]
    #[arg(short, long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
}

#[derive(ClapArgs, Debug)]
pub(crate) struct LoadArgs {
    #[command(subcommand)]
    pub(crate) command: LoadCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// List the built-in loads
    List,
    /// Run a built-in load until Ctrl-C, then print its throughput as JSON
    Run {
        /// Its name
        name: String,
    },
}
