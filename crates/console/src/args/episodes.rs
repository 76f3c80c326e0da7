//! `--episodes`, which several commands have.

use clap::ValueEnum;

/// Value of `--episodes`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum EpisodesArg {
    /// If this kernel supports it
    Auto,
    /// Always; fail if this kernel does not support it
    On,
    /// Never
    Off,
}
