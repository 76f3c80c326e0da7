//! `--episodes`, which several commands have.

use clap::builder::TypedValueParser;
use laggard_session::EpisodesChoice;

use super::choice;

/// Parses the value of `--episodes`.
pub fn episodes() -> impl TypedValueParser<Value = EpisodesChoice> {
    choice(&[
        (EpisodesChoice::Auto, "auto", "If this kernel supports it"),
        (
            EpisodesChoice::On,
            "on",
            "Always; fail if this kernel does not support it",
        ),
        (EpisodesChoice::Off, "off", "Never"),
    ])
}
