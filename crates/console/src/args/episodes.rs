//! Whether late activations come with who caused them.

use clap::ValueEnum;

/// Whether they do.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum EpisodesArg {
    /// As far as this kernel allows
    Auto,
    /// Surely, or not record at all
    On,
    /// Not at all
    Off,
}
