//! Arguments of `laggard compare`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args as ClapArgs;
use laggard_model::{Nanos, Service};

use super::some_time;
use crate::completion;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  laggard compare a*.laggard --with b*.laggard
  laggard compare a*.laggard --with b*.laggard --at 1ms,16ms --service fifo:90
  laggard compare stock*.laggard --with rt*.laggard --app jack-128 --markdown
  laggard compare a*.laggard --with b*.laggard -o compared.html
  laggard compare --over nightly/*.laggard --at 1ms
  laggard compare --factor sysctl:kernel.timer_migration=0,1 --load fileio
  laggard compare --run 'nice -n 0 ./busy' --run 'nice -n 19 ./busy'
  laggard compare --each 2min --before A='systemctl start irqbalance' \\
      --before B='systemctl stop irqbalance'
  laggard compare --factor sysctl:vm.swappiness=60,0 -- --services fifo:90
  laggard compare --factor sysctl:kernel.numa_balancing=1,0 --rounds 12 \\
      --service fifo:90

The level of a series is a high quantile of both sides, unless --at or --app
sets it. B is worse or better if the 95 % interval of the ratio excludes equal
rates, pairs of recordings agree, and the difference is significant after
correction for the number of comparisons (Holm).

Exit code: 3 if a recording is not trustworthy.")]
pub(crate) struct CompareArgs {
    /// Recordings A (before the change)
    #[arg(required_unless_present_any = ["run", "factor", "before", "over"], requires = "with", value_name = "DIR", add = completion::recordings())]
    pub(crate) recordings: Vec<PathBuf>,
    /// Recordings B (after the change)
    #[arg(long, num_args = 1.., requires = "recordings", value_name = "DIR", add = completion::recordings())]
    pub(crate) with: Vec<PathBuf>,
    /// Find changes in a series of recordings, such as nightly builds
    #[arg(long, num_args = 1.., value_name = "DIR", conflicts_with_all = ["recordings", "with", "run", "factor", "before", "load", "app", "output", "markdown", "options", "into", "all_rounds", "seed"], add = completion::recordings())]
    pub(crate) over: Vec<PathBuf>,
    /// Sort the recordings of --over as given, not by start time
    #[arg(long, requires = "over")]
    pub(crate) in_order: bool,
    /// Use the slack of this application as level: a name from `laggard qos --list`, or
    /// a TOML file
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with = "at", add = completion::applications())]
    pub(crate) app: Option<String>,
    /// Levels: a wakeup with a higher latency is late [default: chosen per series]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) at: Vec<Nanos>,
    /// Only this service [default: all]
    #[arg(short, long, value_name = "NAME", add = completion::services())]
    pub(crate) service: Option<Service>,
    /// Treat ratios from 1 / RATIO to RATIO as the same
    #[arg(long, value_name = "RATIO", default_value_t = 1.25, value_parser = above_one)]
    pub(crate) equal: f64,
    /// Change under test: `load` allows different loads in existing recordings;
    /// `sysctl:NAME=A,B` records with these two values of a kernel parameter
    #[arg(long, value_name = "WHAT")]
    pub(crate) factor: Option<FactorArg>,
    /// Command to run during each recording: the first --run is for A, the second for B;
    /// '' for none. A recording ends with its command
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["recordings", "factor"])]
    pub(crate) run: Vec<String>,
    /// Command to run before each recording of a side: `A=COMMAND`, `B=COMMAND`, or both,
    /// separated by a comma. The command of A also runs at the end
    #[arg(long, value_name = "SIDE=COMMAND", conflicts_with = "recordings")]
    pub(crate) before: Vec<String>,
    /// Load in all recordings: a name from `laggard load list`, or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with = "recordings", add = completion::loads())]
    pub(crate) load: Option<String>,
    /// Maximum number of recordings per side. A verdict needs at least 4. With 6 or more, laggard
    /// also evaluates after a quarter, half and three quarters of them, at least 4, and ends if
    /// every series is worse, better or the same
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = rounds, conflicts_with = "recordings")]
    pub(crate) rounds: usize,
    /// Record all rounds and evaluate once, which finds slightly smaller differences
    #[arg(long, conflicts_with = "recordings")]
    pub(crate) all_rounds: bool,
    /// Seed of the random order [default: random, and printed]
    #[arg(long, value_name = "NUMBER", conflicts_with = "recordings")]
    pub(crate) seed: Option<u64>,
    /// Length of each recording
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = some_time, conflicts_with = "recordings")]
    pub(crate) each: Nanos,
    /// New directory for the recordings and the answer [default: a name with the time]
    #[arg(long, value_name = "DIR", conflicts_with = "recordings")]
    pub(crate) into: Option<PathBuf>,
    /// Write an HTML report to this file; an existing file is replaced
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "markdown", "all"])]
    pub(crate) output: Option<PathBuf>,
    /// Print quantiles, maxima, counts, tails, and every condition, cause and warning
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,
    /// Write JSON, described by `laggard schema compare`
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Write Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Options of `laggard record` for all recordings
    #[arg(last = true, value_name = "OPTION", conflicts_with = "recordings")]
    pub(crate) options: Vec<OsString>,
}

/// Intended difference between two sets of recordings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum FactorArg {
    Load,
    /// Kernel parameter with its sysctl(8) name, and its values in A and B.
    Setting {
        name: String,
        values: [String; 2],
    },
}

impl FromStr for FactorArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "use load, or sysctl:NAME=A,B as in sysctl:kernel.timer_migration=0,1";
        if text == "load" {
            return Ok(Self::Load);
        }
        let setting = text.strip_prefix("sysctl:").ok_or(FORM)?;
        let (name, values) = setting.split_once('=').ok_or(FORM)?;
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        match values.as_slice() {
            [a, b] if !a.is_empty() && !b.is_empty() => Ok(Self::Setting {
                name: name.trim().into(),
                values: [(*a).into(), (*b).into()],
            }),
            _ => Err(FORM.into()),
        }
    }
}

fn above_one(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ratio) if ratio > 1.0 && ratio < 1e3 => Ok(ratio),
        _ => Err("write a ratio above 1 and below 1000, such as 1.25".into()),
    }
}

fn rounds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rounds @ 1..=1_000) => Ok(rounds),
        _ => Err("write a number from 1 to 1000".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_is_load_or_setting_with_two_values() {
        let setting = FactorArg::Setting {
            name: "kernel.printk".into(),
            values: ["7 4 1 7".into(), "4 4 1 7".into()],
        };

        assert_eq!("load".parse(), Ok(FactorArg::Load));
        assert_eq!("sysctl:kernel.printk=7 4 1 7,4 4 1 7".parse(), Ok(setting));
        for wrong in [
            "",
            "sysctl",
            "sysctl:x",
            "sysctl:x=1",
            "sysctl:x=1,",
            "sysctl:x=1,2,3",
        ] {
            let message = wrong.parse::<FactorArg>().unwrap_err();
            assert!(message.contains("sysctl:NAME=A,B"), "{wrong}: {message}");
        }
    }
}
