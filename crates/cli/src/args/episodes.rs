//! Whether late activations come with who caused them.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum EpisodesArg {
    /// As far as this kernel allows
    Auto,
    /// Surely, or not record at all
    On,
    /// Not at all
    Off,
}
