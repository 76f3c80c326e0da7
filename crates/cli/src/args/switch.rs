//! Arguments of `laggard switch`.

use clap::Args as ClapArgs;
use laggard_model::{HandOver, Nanos, Service};

use super::some_time;
use crate::completion;

/// Threads of one priority hand one CPU over in turn. Each takes the time before it
/// does and the next one the time when it runs: what lies between is the hand-over,
/// with whatever else ran then. Stretches of all numbers of threads take turns; in
/// half of the time the CPU is left to others.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  sudo laggard switch                   2, 10 and 128 threads of fifo:80
  laggard switch --policy other --via futex,pipe
  sudo laggard switch --threads 2,8,32 --duration 10s --cpu 3
  laggard switch --json | jq '.rows[] | {threads, median: .took.median_ns}'

Exit code 1 where some of it could not be had.")]
pub(crate) struct SwitchArgs {
    /// How many threads, 2 to 1000: each number is measured by itself
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "2,10,128", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) threads: Vec<u32>,
    /// How they hand over: yield, futex, pipe, eventfd
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "yield", value_parser = hand_over, add = completion::hand_overs())]
    pub(crate) via: Vec<HandOver>,
    /// What the threads are: fifo:N, other [default: fifo:80 for who may, else other]
    #[arg(long, value_name = "SERVICE")]
    pub(crate) policy: Option<Service>,
    /// How long each row takes, 1 s to 10 minutes
    #[arg(short, long, value_name = "TIME", default_value = "4s", value_parser = some_time)]
    pub(crate) duration: Nanos,
    /// CPU of the threads [default: the last one that this process may use]
    #[arg(short, long, value_name = "CPU")]
    pub(crate) cpu: Option<u32>,
    /// Write JSON; `laggard schema switch` describes it
    #[arg(long)]
    pub(crate) json: bool,
}

fn hand_over(text: &str) -> Result<HandOver, String> {
    text.parse()
        .map_err(|err: laggard_model::UnknownHandOver| err.to_string())
}
