//! Arguments of `laggard study`.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args as ClapArgs;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use laggard_answer::study::StudyName;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Duration:
  osdi99     41 h (--quick: 11 min); the hours of use come first, after 1.6 h
  hotos99    5 min (--quick: 74 s)
  heubaum    5 min (--quick: 54 s)
  timmerman  3 min (--quick: 32 s)

Examples:
  sudo laggard study osdi99 --quick
  sudo laggard study heubaum -o here --against paper
  sudo laggard study hotos99 --receive-from 192.0.2.7
  laggard study heubaum -o here --against other   compare two systems
  laggard study heubaum -o here --json | jq '.tables[] | {name, rows}'

Exit code: 1 if a recording is missing or incomplete, 2 after an error such as a
full disk (the finished recordings are kept), 3 if a recording of this
system is not trustworthy.")]
pub(crate) struct StudyArgs {
    /// Paper
    #[arg(value_name = "PAPER", value_parser = papers())]
    pub(crate) study: StudyName,
    /// Make short recordings, which do not represent an hour, day or week of use
    #[arg(long)]
    pub(crate) quick: bool,
    /// Directory of the recordings and the HTML page. An existing study continues
    /// [default: `study-PAPER`]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Show a second system next to this one: the directory of a study, or `paper` for the
    /// results that the paper prints (hardware of 1995 to 1999)
    #[arg(long, value_name = "DIR|paper")]
    pub(crate) against: Option<AgainstArg>,
    /// osdi99: use these loads instead of the paper's, for example because a program is missing;
    /// see `laggard load list`. The output lists the paper's loads as not repeated
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) loads: Vec<String>,
    /// hotos99: receive through a network card, from `iperf3 -s` on this machine
    #[arg(long, value_name = "HOST", conflicts_with = "show")]
    pub(crate) receive_from: Option<String>,
    /// Show the tables of the existing recordings, and record nothing
    #[arg(long)]
    pub(crate) show: bool,
    /// Write JSON, described by `laggard schema study`
    #[arg(long)]
    pub(crate) json: bool,
    /// Source of the stages, for tests
    #[arg(long, value_name = "WHAT", hide = true)]
    pub(crate) backend: Option<String>,
}

/// Second system of a study.
#[derive(Clone, Debug)]
pub(crate) enum AgainstArg {
    Paper,
    Directory(PathBuf),
}

impl FromStr for AgainstArg {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "paper" => Self::Paper,
            directory => Self::Directory(directory.into()),
        })
    }
}

/// Reads the name of a paper; the help describes each.
fn papers() -> impl TypedValueParser<Value = StudyName> {
    let about = |study| match study {
        StudyName::Osdi99 => "Cota-Robles and Held, OSDI 1999: from interrupt to thread",
        StudyName::Hotos99 => "Jones and Regehr, HotOS 1999: timers, and causes of late threads",
        StudyName::Timmerman => "Timmerman, 1998: requirements on a real-time operating system",
        StudyName::Heubaum => "Heubaum, 1995: deferred work under four loads",
    };
    let values = StudyName::ALL.map(|study| PossibleValue::new(study.name()).help(about(study)));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<StudyName>())
}
