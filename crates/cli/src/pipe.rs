//! Writing to the terminal, as all our programs do, and what is laid out for one.

pub(crate) use laggard_console::pipe::{
    json, json_line, print, print_commands, print_document, say, say_as_it_is, stdout, try_print,
};
use laggard_view::text::Screen;

use crate::terminal;

/// Prints what was made for a terminal: coloured where this is one that has
/// colours. What is in it was made printable where it was written.
pub(crate) fn print_screen(screen: &Screen) -> anyhow::Result<()> {
    laggard_console::pipe::print_as_it_is(&if terminal::has_colours() {
        screen.coloured()
    } else {
        screen.plain()
    })
}
