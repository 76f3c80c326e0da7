//! Arguments of `laggard bench rtos`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
#[cfg(target_os = "linux")]
use laggard_model::InterruptSource;
use laggard_model::{Nanos, RtosCriterion};

use super::some_time;
use crate::completion;

/// Default loads: those that need no other program, and on Linux two that do.
const LOADS: &str = if cfg!(target_os = "linux") {
    "idle,fp,fileio,kernel,net"
} else {
    "idle,draw,fp,fileio"
};

#[cfg(target_os = "linux")]
const EXAMPLES: &str = "\
Criteria (Timmerman 1998), which are necessary and not sufficient:
  preemption  SCHED_FIFO 90 preempts SCHED_FIFO 50 within --within
  priorities  at least 32 priorities, each of which preempts the next lower one
  order       futex, PI futex, condition variable, semaphore and message queue
              wake the thread with the highest priority first
  inversion   PTHREAD_PRIO_INHERIT avoids priority inversion
  bounded     no load of --loads on the same CPU doubles the max latency of
              SCHED_FIFO 90
  locked      locked pages stay in memory under memory pressure
  interrupts  handlers start and return within --within; interrupts any program
              on the CPU about 4,000 times a second
  deferred    SCHED_FIFO 90 preempts a softirq that receives packets

Real-time threads use up to half of the CPU.

Examples:
  sudo laggard bench rtos                       all criteria, on the last CPU
  sudo laggard bench rtos --only inversion,order
  sudo laggard bench rtos --only bounded --loads idle,draw,fileio
  sudo laggard bench rtos --within 100us --duration 1min --cpu 3
  sudo laggard bench rtos --only interrupts --source hpet --cpu 0
  sudo laggard bench rtos -o rtos.html          an HTML page with all figures
  sudo laggard bench rtos --json | jq '.rows[] | {criterion, verdict}'

Exit code: 1 if a tested criterion fails or is unknown.";

#[cfg(not(target_os = "linux"))]
const EXAMPLES: &str = "\
Criteria (Timmerman 1998), which are necessary and not sufficient:
  preemption  realtime:28 preempts realtime:20 within --within
  priorities  at least 32 priorities, each of which preempts the next lower one
  order       WaitOnAddress (futex), condition variable and semaphore wake the
              thread with the highest priority first
  inversion   a mutex object avoids priority inversion
  bounded     no load of --loads on the same CPU doubles the max latency of
              realtime:28
The criteria locked, interrupts and deferred need Linux, and are UNKNOWN.

Real-time threads use up to half of the CPU, and need an administrator.

Examples:
  laggard bench rtos                            all criteria, on the last CPU
  laggard bench rtos --only inversion,order
  laggard bench rtos --only bounded --loads idle,fp --json

Exit code: 1 if a tested criterion fails or is unknown.";

#[derive(ClapArgs, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RtosArgs {
    /// Criteria to test [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = criterion, add = completion::criteria())]
    pub(crate) only: Vec<RtosCriterion>,
    /// Max latency for `preemption` and `interrupts`. The paper calls a context switch that
    /// takes milliseconds too slow
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = some_time)]
    pub(crate) within: Nanos,
    /// Max duration of each test, and of `bounded` under each load: 1 s to 10 min
    #[arg(short, long, value_name = "TIME", default_value = "5s", value_parser = some_time)]
    pub(crate) duration: Nanos,
    /// Loads for `bounded`; the others are compared with the first
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = LOADS, add = completion::loads())]
    pub(crate) loads: Vec<String>,
    /// Interrupt source for `interrupts`: another CPU, or the HPET, a timer with a separate
    /// clock (/dev/hpet) [default: the HPET if it can interrupt the tested CPU; on an RT kernel
    /// another CPU if possible]
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "cpu|hpet")]
    pub(crate) source: Option<InterruptSource>,
    /// Time between two interrupts with --source hpet: 50 us to 1 ms [default: 200 us]
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) every: Option<Nanos>,
    /// CPU to test [default: the last CPU that this process may use]
    #[arg(short, long, value_name = "CPU")]
    pub(crate) cpu: Option<u32>,
    /// Write an HTML page to this file; an existing file is replaced
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "markdown"])]
    pub(crate) output: Option<PathBuf>,
    /// Write Markdown with all figures
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Write JSON, described by `laggard schema rtos`
    #[arg(long)]
    pub(crate) json: bool,
}

fn criterion(text: &str) -> Result<RtosCriterion, String> {
    text.parse()
        .map_err(|err: laggard_model::UnknownCriterion| err.to_string())
}
