//! The command line.

#![allow(
    missing_docs,
    reason = "clap makes the help of these comments, and what has none is named by its type"
)]

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use jiff::Zoned;
use laggard_model::{Nanos, Service};

use crate::answers::Order;
use crate::cluster::Scheduler;

/// Report how late many machines run your code, which of them are worst, and why. Reads a directory
/// of laggard recordings.
#[derive(Debug, Parser)]
#[command(
    name = "laggard-fleet",
    version,
    max_term_width = 80,
    after_help = "\
STORE is a directory with recordings at any depth, such as the stores of
`laggard serve` on many machines, copied to STORE/HOST/*.laggard. It can also be
a place in an object store, to which laggard-ship sends recordings:
s3://BUCKET/PREFIX, with the same credentials as laggard-ship. Recordings must be
made with `--keep tail`. `laggard digest` reads each recording once. The figures
are kept in STORE/.fleet; for object stores and several stores, in
~/.cache/laggard-fleet.

Exit codes:
  0  answered from all recordings
  2  error: wrong arguments, no such directory, a full disk
  3  answered, but some recordings are unreadable or incomplete; they are listed

Examples:
  laggard-fleet /srv/latency summary
  laggard-fleet /srv/latency worst --limit 2.5ms --since 7d
  laggard-fleet /srv/latency worst -o worst.html
  laggard-fleet /srv/latency changed --by kernel --json
  laggard-fleet /srv/latency causes
  laggard-fleet /srv/latency show host-17
  laggard-fleet /srv/latency sql 'SELECT host, kernel FROM recordings'
  laggard-fleet /srv/latency summary --show-sql | duckdb
  laggard-fleet s3://latency/fleet worst --also /srv/latency"
)]
pub struct Args {
    /// Directory of recordings at any depth, or `s3://BUCKET/PREFIX`
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    #[command(subcommand)]
    pub question: Question,
    /// Also include the recordings of this store
    #[arg(long, value_name = "STORE", global = true)]
    pub also: Vec<PathBuf>,
    /// Directory for the figures of the recordings [default: STORE/.fleet]
    #[arg(long, value_name = "DIR", global = true)]
    pub catalogue: Option<PathBuf>,
    /// Run the queries on the Ballista cluster with this scheduler. It reads the catalogue at the
    /// same path
    #[arg(long, value_name = "HOST:PORT", global = true)]
    pub cluster: Option<Scheduler>,
    /// Write JSON; `laggard-fleet STORE schema` describes it
    #[arg(long, global = true)]
    pub json: bool,
    /// Write the SQL queries instead of the answer, as a script for another engine that reads
    /// the files of the catalogue
    #[arg(long, global = true, conflicts_with = "json")]
    pub show_sql: bool,
}

/// Question of the user.
#[derive(Debug, Subcommand)]
pub enum Question {
    /// Show the latency of services per kernel, build or load
    Summary(SummaryArgs),
    /// List the machines that are late most often
    Worst(WorstArgs),
    /// List the machines that are late more often since a change, and settings that distinguish
    /// them from the others
    Changed(ChangedArgs),
    /// List the causes of late wakeups
    Causes(ListArgs),
    /// Show one machine
    Show {
        /// Name of the machine
        host: String,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Query the tables; docs/how-to/fleet.md describes them
    Sql {
        /// SQL query
        query: String,
    },
    /// Write the JSON schema of an answer
    Schema {
        /// Command
        of: SchemaOf,
    },
}

impl Question {
    /// Returns the first hour, counted from 1970; `None` if all hours are included.
    ///
    /// # Errors
    /// If it is not a time, or if it is in the future.
    pub(crate) fn since(&self) -> anyhow::Result<Option<i32>> {
        let time = match self {
            Self::Summary(time) => &time.since,
            Self::Worst(time) => &time.list.since,
            Self::Changed(time) => &time.list.since,
            Self::Causes(list) | Self::Show { list, .. } => &list.since,
            Self::Sql { .. } | Self::Schema { .. } => return Ok(None),
        };
        let time = time.since.as_ref();
        time.map(|text| crate::since::since(text, &Zoned::now()))
            .transpose()
    }
}

/// Answer with a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SchemaOf {
    /// `summary --json`
    Summary,
    /// `worst --json`
    Worst,
    /// `changed --json`
    Changed,
    /// `causes --json`
    Causes,
    /// `show --json`
    Show,
}

/// Property that groups recordings.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ByArg {
    /// The kernel's release
    Kernel,
    /// The kernel's build
    Build,
    /// The load
    Load,
}

impl ByArg {
    /// Returns the column of `recordings`.
    pub const fn column(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Build => "build",
            Self::Load => "load",
        }
    }
}

/// Time range of all questions.
#[derive(ClapArgs, Clone, Debug)]
pub struct SinceArgs {
    /// Only whole hours since that time: an age (`24h`, `7d`), or a date or time (`2026-11-17`,
    /// `2026-11-17T08:00Z`; without a zone, in local time)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
}

/// `summary`.
#[derive(ClapArgs, Debug)]
pub struct SummaryArgs {
    #[command(flatten)]
    pub since: SinceArgs,
    /// Properties that form the groups
    #[arg(long, value_delimiter = ',', default_value = "kernel,load")]
    pub by: Vec<ByArg>,
}

/// Service and limit.
#[derive(ClapArgs, Clone, Debug)]
pub struct LateArgs {
    /// Service, such as fifo:90 [default: the thread service of most machines]
    #[arg(short, long, value_name = "SERVICE")]
    pub service: Option<Service>,
    /// Latency limit: a later wakeup is late. For an application, use its slack (`laggard qos`
    /// shows it)
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub limit: Nanos,
}

/// `worst`.
#[derive(ClapArgs, Debug)]
pub struct WorstArgs {
    #[command(flatten)]
    pub late: LateArgs,
    #[command(flatten)]
    pub list: ListArgs,
    /// Sort key
    #[arg(long, value_enum, default_value_t)]
    pub order: Order,
    /// Write an HTML report with an hourly map and a section for each machine: 100 machines by
    /// default, at most 500 (--top)
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "show_sql"])]
    pub output: Option<PathBuf>,
}

/// `changed`.
#[derive(ClapArgs, Debug)]
pub struct ChangedArgs {
    #[command(flatten)]
    pub late: LateArgs,
    #[command(flatten)]
    pub list: ListArgs,
    /// Changed property
    #[arg(long, value_delimiter = ',', default_value = "kernel")]
    pub by: Vec<ByArg>,
}

/// Options of lists.
#[derive(ClapArgs, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    pub since: SinceArgs,
    /// Maximum number of entries [default: 10]
    #[arg(long, value_name = "COUNT")]
    pub top: Option<usize>,
}

impl ListArgs {
    /// Returns the maximum number of entries.
    pub(crate) fn top(&self) -> usize {
        self.top.unwrap_or(10)
    }
}
