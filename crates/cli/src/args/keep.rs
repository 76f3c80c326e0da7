//! Argument for the data that a recording keeps.

use clap::builder::TypedValueParser;
use laggard_model::Keep;

use laggard_console::args::choice;

pub(super) fn keep() -> impl TypedValueParser<Value = Keep> {
    choice(&[
        (Keep::All, "all", "Every sample"),
        (
            Keep::Tail,
            "tail",
            "Hourly histograms, the max of each minute, and the tail",
        ),
    ])
}
