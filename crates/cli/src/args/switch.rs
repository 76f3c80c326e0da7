//! Arguments of `laggard bench switch`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_model::{HandOver, Nanos, SwitchPolicy};

use super::some_time;
use crate::completion;

#[cfg(target_os = "linux")]
const EXAMPLES: &str = "\
Examples:
  sudo laggard bench switch             2, 10 and 128 threads of fifo:80
  laggard bench switch --policy other --via futex,pipe
  sudo laggard bench switch --threads 2,8,32 --duration 10s --cpu 3
  sudo laggard bench switch --via pipe --processes --working-set 0,64K,1M
  sudo laggard bench switch --via futex --cross --threads 2 --load fileio
  sudo laggard bench switch --series series.svg --growth growth.svg
  sudo laggard bench switch --threads 2,128 -o switches
                                        a recording per row
  laggard bench switch --json | jq '.rows[] | {threads, gross}'

Exit code: 1 if a row is not available or was not completed.";

#[cfg(not(target_os = "linux"))]
const EXAMPLES: &str = "\
Examples:
  laggard bench switch                  2, 10 and 128 threads, as administrator
                                        in the real-time class
  laggard bench switch --policy other --via futex,pipe
  laggard bench switch --threads 2,10 --series series.svg

Exit code: 1 if a row is not available or was not completed.";

#[derive(ClapArgs, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SwitchArgs {
    /// Numbers of threads, 2 to 1000, each measured separately
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "2,10,128", value_parser = thread_count)]
    pub(crate) threads: Vec<usize>,
    /// Mechanisms: yield, futex, pipe, and on Linux eventfd
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "yield", value_parser = mechanism, add = completion::mechanisms())]
    pub(crate) via: Vec<HandOver>,
    /// Policy of the threads: fifo:N, other, deadline; on Windows realtime:N, other
    /// [default: fifo:80 or realtime:24 if this user may use it, otherwise other]
    #[arg(long, value_name = "SERVICE")]
    pub(crate) policy: Option<SwitchPolicy>,
    /// Use processes with separate memory instead of threads
    #[cfg(target_os = "linux")]
    #[arg(long)]
    pub(crate) processes: bool,
    /// Memory that each thread accesses after it gets the CPU, 8 bytes to 16M. Each amount is
    /// measured separately; the time for it without a switch is subtracted
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0", value_parser = amount)]
    pub(crate) working_set: Vec<u64>,
    /// Run every second thread on another CPU. This measures a wakeup, not a switch
    #[arg(long)]
    pub(crate) cross: bool,
    /// Load during the test: a name from `laggard load list`, or a TOML file
    #[arg(short, long, value_name = "NAME|FILE", add = completion::loads())]
    pub(crate) load: Option<String>,
    /// Duration of each row, 1 s to 10 min
    #[arg(short, long, value_name = "TIME", default_value = "4s", value_parser = some_time)]
    pub(crate) duration: Nanos,
    /// CPU of the threads [default: the last CPU that this process may use]
    #[arg(short, long, value_name = "CPU")]
    pub(crate) cpu: Option<u32>,
    /// Draw the first 1,000 context switches in a row to this file (.svg or .png), with 10
    /// threads or the smallest number
    #[arg(long, value_name = "FILE")]
    pub(crate) series: Option<PathBuf>,
    /// Draw the durations against the number of threads to this file (.svg or .png)
    #[arg(long, value_name = "FILE")]
    pub(crate) growth: Option<PathBuf>,
    /// Write a recording per row to this directory, which must not exist. They support
    /// fractions and quantiles, but not rates
    #[cfg(target_os = "linux")]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Write Markdown
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Write JSON, described by `laggard schema switch`
    #[arg(long)]
    pub(crate) json: bool,
}

fn thread_count(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok();
    let threads = threads.filter(|threads| (2..=1000).contains(threads));
    threads.ok_or_else(|| "--threads takes 2 to 1000".into())
}

fn mechanism(text: &str) -> Result<HandOver, String> {
    text.parse()
        .map_err(|err: laggard_model::UnknownHandOver| err.to_string())
}

/// Maximum memory of one thread.
const MAX_BYTES: u64 = 16 << 20;

/// Parses an amount of memory: a number, optionally with K or M (units of 1,024).
fn amount(text: &str) -> Result<u64, String> {
    let text = text.trim().to_ascii_uppercase();
    let (number, unit) = if let Some(number) = text.strip_suffix('K') {
        (number, 1 << 10)
    } else if let Some(number) = text.strip_suffix('M') {
        (number, 1 << 20)
    } else {
        (&*text, 1_u64)
    };
    let number = number.parse::<u64>().ok();
    match number.and_then(|number| number.checked_mul(unit)) {
        Some(0) => Ok(0),
        Some(bytes @ 8..=MAX_BYTES) => Ok(bytes),
        _ => Err("use 0, or 8 bytes to 16M, such as 4096, 64K or 1M".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amount_has_a_unit_and_a_range() {
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
