//! Argument for the data that a recording keeps.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum KeepArg {
    /// Every sample
    All,
    /// Hourly histograms, the max of each minute, and the tail
    Tail,
}
