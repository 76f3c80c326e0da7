//! Output of all programs of laggard, and of screens.

pub(crate) use laggard_console::pipe::{
    json, json_line, print, print_commands, print_document, say, say_as_it_is, stdout, try_print,
};
use laggard_model::text::Unit;
use laggard_view::doc::{self, Document};
use laggard_view::text::Screen;
use serde::Serialize;

use crate::terminal;

/// Format of an answer. Without one, it is a screen.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    pub(crate) json: bool,
    pub(crate) markdown: bool,
}

pub(crate) fn print_answer(
    format: Format,
    report: &impl Serialize,
    document: impl FnOnce() -> Document,
) -> anyhow::Result<()> {
    if format.json {
        print(&json(report)?)
    } else if format.markdown {
        print(&doc::markdown(&document()))
    } else {
        print_screen(&doc::terminal(&document(), terminal::look(Unit::Auto)))
    }
}

/// Prints a screen, with colours if the terminal supports them. Its text was made printable when it
/// was created.
pub(crate) fn print_screen(screen: &Screen) -> anyhow::Result<()> {
    laggard_console::pipe::print_as_it_is(&if terminal::has_colours() {
        screen.coloured()
    } else {
        screen.plain()
    })
}
