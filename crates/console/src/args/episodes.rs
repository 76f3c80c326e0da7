//! Option to keep late wakeups with their causes.

use clap::ValueEnum;

/// Whether late wakeups are kept with their causes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum EpisodesArg {
    /// If this kernel supports it
    Auto,
    /// Always; otherwise do not record
    On,
    /// Never
    Off,
}
