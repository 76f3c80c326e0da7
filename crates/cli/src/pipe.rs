//! Output of all programs of laggard, and of screens.

pub(crate) use laggard_console::pipe::{
    json, json_line, print, print_commands, print_document, say, say_as_it_is, stdout, try_print,
};
use laggard_view::text::Screen;

use crate::terminal;

/// Prints a screen, with colours if the terminal supports them. Its text was made printable when it
/// was created.
pub(crate) fn print_screen(screen: &Screen) -> anyhow::Result<()> {
    laggard_console::pipe::print_as_it_is(&if terminal::has_colours() {
        screen.coloured()
    } else {
        screen.plain()
    })
}
