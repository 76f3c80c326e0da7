//! What standard output is: a terminal of some width, or a pipe.

use std::env;
use std::io::{IsTerminal as _, stdout};

use laggard_model::text::Unit;
use laggard_view::text::Look;

/// Where nothing is known of who reads.
const COLUMNS: usize = 80;
/// Lines that are longer are hard to read, and in shorter ones a table has no
/// room for its figures: a terminal breaks these itself.
const MOST: usize = 120;
const LEAST: usize = 40;

/// How to write for who reads standard output.
pub(crate) fn look(unit: Unit) -> Look {
    Look {
        columns: columns(),
        unit,
    }
}

/// The width of the terminal, or as `COLUMNS` says for a pipe; no more and no
/// less than can be read.
fn columns() -> usize {
    let terminal = || {
        let out = stdout();
        let size = out
            .is_terminal()
            .then(|| terminal_size::terminal_size_of(&out));
        size.flatten().map(|(width, _)| usize::from(width.0))
    };
    let asked = || env::var("COLUMNS").ok()?.parse().ok();
    let is_some = |columns: &usize| *columns > 0;
    terminal()
        .filter(is_some)
        .or_else(|| asked().filter(is_some))
        .unwrap_or(COLUMNS)
        .clamp(LEAST, MOST)
}

/// Whether standard output is a terminal with colours, and they are wanted
/// (<https://no-color.org>).
pub(crate) fn has_colours() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|name| name == "dumb");
    stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}
