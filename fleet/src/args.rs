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

/// How late many machines run your code, which of them are worst, and what made
/// them so: answers over a folder of laggard's recordings.
#[derive(Debug, Parser)]
#[command(
    name = "laggard-fleet",
    version,
    max_term_width = 80,
    after_help = "\
STORE is a folder with recordings at any depth, such as what laggard-serve
writes on each machine, copied together: STORE/HOST/*.laggard. Or it is a place
in an object store, to which laggard-ship sends them: s3://BUCKET/PREFIX, with
credentials as laggard-ship takes them. They must be made with `--keep tail`.
Each is read once, by `laggard digest`; what it tells is kept in STORE/.fleet,
of object stores and of several stores below ~/.cache/laggard-fleet.

Exit codes:
  0  answered, from every recording
  2  error: wrong arguments, no such folder, a full disk
  3  answered, but some recordings could not be read, or not wholly: they are
     named

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
    /// Folder of recordings, however deep, or `s3://BUCKET/PREFIX`
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    #[command(subcommand)]
    pub question: Question,
    /// Answer over the recordings of this store, too
    #[arg(long, value_name = "STORE", global = true)]
    pub also: Vec<PathBuf>,
    /// Where to keep what the recordings tell [default: STORE/.fleet]
    #[arg(long, value_name = "DIR", global = true)]
    pub catalogue: Option<PathBuf>,
    /// Have a Ballista cluster answer, whose scheduler is there. It reads the
    /// catalogue by the path that it has here
    #[arg(long, value_name = "HOST:PORT", global = true)]
    pub cluster: Option<Scheduler>,
    /// Write JSON; `laggard-fleet STORE schema` describes it
    #[arg(long, global = true)]
    pub json: bool,
    /// Write the queries by which it is answered, and not the answer: a script for
    /// another engine over the catalogue's files
    #[arg(long, global = true, conflicts_with = "json")]
    pub show_sql: bool,
}

/// What is asked.
#[derive(Debug, Subcommand)]
pub enum Question {
    /// How late services run, by kernel, build or load
    Summary(SummaryArgs),
    /// Which machines are late most often
    Worst(WorstArgs),
    /// Which machines are late more often since something was changed, and what
    /// tells them from the others
    Changed(ChangedArgs),
    /// Who makes machines late
    Causes(ListArgs),
    /// One machine
    Show {
        /// Its name
        host: String,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Ask the tables themselves; docs/how-to/fleet.md has them
    Sql {
        /// A query
        query: String,
    },
    /// Write the JSON schema of an answer
    Schema {
        /// Of which answer
        of: SchemaOf,
    },
}

impl Question {
    /// The first hour since 1970 that it is about; `None`: all are.
    ///
    /// # Errors
    /// When that is no time, or has not come yet.
    pub(crate) fn since(&self) -> anyhow::Result<Option<i32>> {
        let asked = match self {
            Self::Summary(asked) => &asked.since,
            Self::Worst(asked) => &asked.list.since,
            Self::Changed(asked) => &asked.list.since,
            Self::Causes(list) | Self::Show { list, .. } => &list.since,
            Self::Sql { .. } | Self::Schema { .. } => return Ok(None),
        };
        let asked = asked.since.as_ref();
        asked
            .map(|text| crate::since::since(text, &Zoned::now()))
            .transpose()
    }
}

/// An answer that has a schema.
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

/// By what recordings are put together.
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
    /// The column of `recordings`.
    pub const fn column(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Build => "build",
            Self::Load => "load",
        }
    }
}

/// What all questions take.
#[derive(ClapArgs, Clone, Debug)]
pub struct SinceArgs {
    /// Only whole hours from that one on: so long ago (`24h`, `7d`), or a date or
    /// time (`2026-11-17`, `2026-11-17T08:00Z`; without a zone, where this
    /// machine is)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
}

/// `summary`.
#[derive(ClapArgs, Debug)]
pub struct SummaryArgs {
    #[command(flatten)]
    pub since: SinceArgs,
    /// Keep these apart
    #[arg(long, value_delimiter = ',', default_value = "kernel,load")]
    pub by: Vec<ByArg>,
}

/// Which service, and what is late.
#[derive(ClapArgs, Clone, Debug)]
pub struct LateArgs {
    /// The service, such as fifo:90 [default: the thread that most machines have]
    #[arg(short, long, value_name = "SERVICE")]
    pub service: Option<Service>,
    /// An activation is late from here on; of an application, the slack that it
    /// has (`laggard qos` tells it)
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
    /// By what to rank
    #[arg(long, value_enum, default_value_t)]
    pub order: Order,
    /// Write it as a page, with the machines by hours and a part for each: 100
    /// machines, unless --top says how many (500 at most)
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
    /// What was changed
    #[arg(long, value_delimiter = ',', default_value = "kernel")]
    pub by: Vec<ByArg>,
}

/// What has a list.
#[derive(ClapArgs, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    pub since: SinceArgs,
    /// How many to list [default: 10]
    #[arg(long, value_name = "COUNT")]
    pub top: Option<usize>,
}

impl ListArgs {
    /// How many to list.
    pub(crate) fn top(&self) -> usize {
        self.top.unwrap_or(10)
    }
}
