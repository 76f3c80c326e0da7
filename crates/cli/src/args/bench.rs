//! Arguments of `laggard bench`.

use clap::{Args as ClapArgs, Subcommand};

use super::{RtosArgs, SwitchArgs, TimersArgs};

#[derive(ClapArgs, Debug)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// Benchmarks of this machine. Each is also a hidden top-level command, for scripts.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Compare the timers of this machine
    ///
    /// Waits with each timer for the period, then for single times of 1 to 3 ms that start at
    /// random, and shows which timers expire as requested. One thread uses one timer at a
    /// time.
    Timers(TimersArgs),
    /// Measure context switches
    ///
    /// Measures how long a CPU takes to switch to the next of several threads of equal
    /// priority. Each thread reads the clock just before it switches, and the next thread
    /// reads it as its first action. Half of the CPU time stays free for other programs.
    Switch(SwitchArgs),
    /// Test the criteria of a real-time operating system
    Rtos(RtosArgs),
}
