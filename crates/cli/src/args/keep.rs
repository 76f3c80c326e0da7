//! Argument for the data that a recording keeps.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum KeepArg {
    /// Every sample
    All,
    /// Histograms by the hour, the largest by the minute, and the tail
    Tail,
}
