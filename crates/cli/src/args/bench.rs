//! Arguments of `laggard bench`.

use clap::{Args as ClapArgs, Subcommand};

use super::TimersArgs;
#[cfg(target_os = "linux")]
use super::{RtosArgs, SwitchArgs};

#[derive(ClapArgs, Debug)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// Tests of one property of this machine. The names are also hidden commands of laggard
/// itself, for scripts.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Compare the timers of this machine
    Timers(TimersArgs),
    /// Measure context switches
    #[cfg(target_os = "linux")]
    Switch(SwitchArgs),
    /// Test the criteria of a real-time operating system
    #[cfg(target_os = "linux")]
    Rtos(RtosArgs),
}
