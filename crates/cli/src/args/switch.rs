//! Arguments of `laggard switch`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_model::{HandOver, Nanos, SwitchPolicy};

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
  sudo laggard switch --via pipe --processes --working-set 0,64K,1M
  sudo laggard switch --via futex --cross --threads 2 --load fileio
  sudo laggard switch --series series.svg --growth growth.svg
  sudo laggard switch --threads 2,128 -o switches
                                        a recording of each row
  laggard switch --json | jq '.rows[] | {threads, median: .took.median_ns}'

Exit code 1 where some of it could not be had.")]
pub(crate) struct SwitchArgs {
    /// How many threads, 2 to 1000: each number is measured by itself
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "2,10,128", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) threads: Vec<u32>,
    /// How they hand over: yield, futex, pipe, eventfd
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "yield", value_parser = hand_over, add = completion::hand_overs())]
    pub(crate) via: Vec<HandOver>,
    /// What the threads are: fifo:N, other, deadline [default: fifo:80 for who may, else
    /// other]
    #[arg(long, value_name = "SERVICE")]
    pub(crate) policy: Option<SwitchPolicy>,
    /// Processes in place of threads: each has memory of its own
    #[arg(long)]
    pub(crate) processes: bool,
    /// What each goes through as soon as it has the CPU, with 8 bytes to 16M: each
    /// amount is measured by itself, less what it takes alone
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0", value_parser = amount)]
    pub(crate) working_set: Vec<u64>,
    /// Every second one on another CPU: a wake-up in place of a switch
    #[arg(long)]
    pub(crate) cross: bool,
    /// Load to run meanwhile: a name that `laggard load list` shows, or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", add = completion::loads())]
    pub(crate) load: Option<String>,
    /// How long each row takes, 1 s to 10 minutes
    #[arg(short, long, value_name = "TIME", default_value = "4s", value_parser = some_time)]
    pub(crate) duration: Nanos,
    /// CPU of the threads [default: the last one that this process may use,
    /// or that `taskset` started it on]
    #[arg(short, long, value_name = "CPU")]
    pub(crate) cpu: Option<u32>,
    /// Draw the first 1,000 hand-overs of a stretch to this file, .svg or .png: among 10
    /// threads, or the fewest
    #[arg(long, value_name = "FILE")]
    pub(crate) series: Option<PathBuf>,
    /// Draw how long they take over the number of threads to this file, .svg or .png
    #[arg(long, value_name = "FILE")]
    pub(crate) growth: Option<PathBuf>,
    /// Keep each row as a recording of its own in this folder, which must not exist; of
    /// them shares and quantiles are told, and no rates
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Write JSON; `laggard schema switch` describes it
    #[arg(long)]
    pub(crate) json: bool,
}

fn hand_over(text: &str) -> Result<HandOver, String> {
    text.parse()
        .map_err(|err: laggard_model::UnknownHandOver| err.to_string())
}

/// The most memory of one thread.
const MOST_BYTES: u64 = 16 << 20;

/// An amount of memory: a number, or one with K or M (of 1,024).
fn amount(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.trim().to_ascii_uppercase() {
        all if all.ends_with('K') => (all[..all.len() - 1].to_owned(), 1 << 10),
        all if all.ends_with('M') => (all[..all.len() - 1].to_owned(), 1 << 20),
        all => (all, 1_u64),
    };
    let bytes = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    match bytes {
        Some(0) => Ok(0),
        Some(bytes @ 8..=MOST_BYTES) => Ok(bytes),
        _ => Err("use 0, or 8 bytes to 16M, as 4096, 64K or 1M".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_of_memory_is_read_with_its_unit_and_within_its_range() {
        for (text, bytes) in [
            ("0", 0),
            ("8", 8),
            ("64K", 65_536),
            ("1m", 1 << 20),
            ("16M", 16 << 20),
        ] {
            assert_eq!(amount(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "K",
            "-1",
            "7",
            "17M",
            "1G",
            "99999999999999999999",
            "99999999999999999M",
        ] {
            assert!(amount(text).unwrap_err().starts_with("use 0"), "{text}");
        }
    }
}
