//! Properties of standard output: a terminal of some width, or a pipe.

use std::env;
use std::io::{IsTerminal as _, stdout};

use laggard_model::text::Unit;
use laggard_view::text::Look;

/// Width if the reader is unknown.
const COLUMNS: usize = 80;
/// Maximum width. Longer lines are hard to read.
const MOST: usize = 120;
const LEAST: usize = 40;

/// Returns the layout for the reader of standard output.
pub(crate) fn look(unit: Unit) -> Look {
    Look {
        columns: columns(),
        unit,
    }
}

/// Returns the width of the terminal, or `COLUMNS` for a pipe, within the readable range.
fn columns() -> usize {
    let terminal = || {
        let out = stdout();
        let size = out
            .is_terminal()
            .then(|| terminal_size::terminal_size_of(&out));
        size.flatten().map(|(width, _)| usize::from(width.0))
    };
    let width = || env::var("COLUMNS").ok()?.parse().ok();
    let is_some = |columns: &usize| *columns > 0;
    terminal()
        .filter(is_some)
        .or_else(|| width().filter(is_some))
        .unwrap_or(COLUMNS)
        .clamp(LEAST, MOST)
}

/// Returns true if standard output is a terminal with colours, and they are wanted
/// (<https://no-color.org>).
pub(crate) fn has_colours() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|name| name == "dumb");
    stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}
