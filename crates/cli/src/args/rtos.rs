//! Arguments of `laggard rtos`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use laggard_model::{InterruptSource, Nanos, RtosCriterion};

use super::some_time;
use crate::completion;

/// Timmerman (1998) names what an operating system needs to be a good real-time
/// system. Each is tried with real-time threads on one CPU, which leave it to others
/// for at least half of the time. What is asked is necessary, not sufficient.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  sudo laggard rtos                       all criteria, on the last CPU
  sudo laggard rtos --only inversion,order
  sudo laggard rtos --only largest --loads idle,draw,fileio
  sudo laggard rtos --within 100us --duration 1min --cpu 3
  sudo laggard rtos --only interrupts --source hpet --cpu 0
  sudo laggard rtos -o rtos.html          one page, for others to look at
  sudo laggard rtos --json | jq '.rows[] | {criterion, verdict}'

Criteria:
  preemption  a woken fifo:90 takes over from a computing fifo:50 soon enough
  priorities  how many there are, and whether each preempts the next lower one
  order       who waits is woken by priority: futex, PI futex, condition,
              semaphore, message queue
  inversion   a lock is had soon although a thread between computes
  largest     a woken fifo:90 waits no longer at most under any of --loads,
              which run on the same CPU
  locked      locked pages stay in memory where a control group has too little
  interrupts  the way into a handler and out of it is short enough; how many
              interrupts a second a device may ask for. Whoever runs on that
              CPU meanwhile is interrupted, too: some 4,000 times a second

Exit code 1 where one that was asked for fails, or cannot be told.")]
pub(crate) struct RtosArgs {
    /// Criteria [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = criterion, add = completion::criteria())]
    pub(crate) only: Vec<RtosCriterion>,
    /// The longest that a take-over may take: the paper calls a switch in the order of
    /// milliseconds too slow; so with the way into an interrupt's handler, and out
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = some_time)]
    pub(crate) within: Nanos,
    /// How long each criterion takes at most, and each load: 1 s to 10 minutes
    #[arg(short, long, value_name = "TIME", default_value = "5s", value_parser = some_time)]
    pub(crate) duration: Nanos,
    /// Loads for `largest`; others are held against the first
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "idle,fp,fileio,kernel,net", add = completion::loads())]
    pub(crate) loads: Vec<String>,
    /// What interrupts the thread of `interrupts`: another CPU, or hpet, a timer of the
    /// board with a clock of its own (/dev/hpet), whose interrupt has to go to the CPU
    /// of the thread
    #[arg(long, value_name = "cpu|hpet", default_value_t)]
    pub(crate) source: InterruptSource,
    /// CPU of the threads [default: the last one that this process may use,
    /// or that `taskset` started it on]
    #[arg(short, long, value_name = "CPU")]
    pub(crate) cpu: Option<u32>,
    /// Write a page for a browser to this file; what it held before is replaced
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "markdown"])]
    pub(crate) output: Option<PathBuf>,
    /// Write Markdown
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Write JSON; `laggard schema rtos` describes it
    #[arg(long)]
    pub(crate) json: bool,
}

fn criterion(text: &str) -> Result<RtosCriterion, String> {
    text.parse()
        .map_err(|err: laggard_model::UnknownCriterion| err.to_string())
}
