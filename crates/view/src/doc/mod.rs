//! The document model: one description of an answer for every output format.
//!
//! An answer has one function `document(&Answer, Detail) -> Document`. The document
//! states what is shown and in which order. A renderer decides how: [`terminal`],
//! [`markdown`], [`html`] and [`json`]. A new output format is one file here and its
//! registration below; it needs nothing from the answers.
//!
//! Text in a document is plain. A part between two backticks is something to type, or
//! a name from the measured system (see [`code`]). Renderers escape all text, so a
//! document may hold any string.

mod bars;
mod cell;
mod html;
mod json;
mod markdown;
mod table;
mod terminal;

use laggard_model::printable;
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use bars::BarAxis;
pub use cell::{Cell, Reason};
pub use html::html;
pub(crate) use html::html_with_footer;
pub use json::{CellJson, json};
pub use markdown::markdown;
pub use table::{Column, ColumnKind, Table};
pub use terminal::terminal;

use crate::text::{Look, Tone};

/// An answer, ready to be rendered.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct Document {
    /// Heading of the page. The terminal does not show it: its reader has typed the
    /// command.
    pub title: String,
    /// The content, in order.
    pub blocks: Vec<Block>,
}

/// Part of a document.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", content = "content", rename_all = "snake_case")]
pub enum Block {
    /// Title of the blocks up to the next heading.
    Heading(String),
    /// Verdicts with their subjects, one below the other.
    Verdicts(Vec<Verdict>),
    /// Text.
    Paragraph(String),
    /// Text that belongs to the block above, such as the remedy for a cause.
    Detail(String),
    /// Facts, one per line.
    Lines(Vec<String>),
    /// Items with bullets.
    List(Vec<String>),
    /// Lines in a font of fixed width, such as a histogram of block characters.
    Preformatted(Vec<String>),
    /// Rows and columns.
    Table(Table),
    /// Warnings and other notes on the whole answer.
    Notes(Notes),
    /// A drawing. Only a page shows it.
    Figure(Figure),
}

/// Verdict on one subject.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether the verdict is good news.
    pub tone: Tone,
    /// The verdict in one or two words, such as `NOT FIT`.
    pub word: String,
    /// Subject and reason.
    pub text: String,
}

/// Notes below a title.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Notes {
    /// The title, such as `Warnings`.
    pub title: String,
    /// The notes.
    pub notes: Vec<String>,
}

/// Place for a drawing.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Figure {
    /// Name by which the renderer of the page finds the drawing.
    pub id: String,
    /// Text below the drawing.
    pub caption: String,
}

/// Amount of detail in a document.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Detail {
    /// The answer and the next step, on one screen.
    Short,
    /// All figures.
    Full,
}

impl Detail {
    /// Returns `Full` or `Short`.
    pub const fn new(is_full: bool) -> Self {
        if is_full { Self::Full } else { Self::Short }
    }
}

impl Document {
    /// Creates a document without content.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            blocks: Vec::new(),
        }
    }

    /// Adds a block.
    pub fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.push(Block::Heading(text.into()));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: impl Into<String>) {
        self.push(Block::Paragraph(text.into()));
    }

    /// Adds notes below a title, unless the list is empty.
    pub fn notes(&mut self, title: impl Into<String>, notes: Vec<String>) {
        if !notes.is_empty() {
            let title = title.into();
            self.push(Block::Notes(Notes { title, notes }));
        }
    }

    /// Adds lines, unless the list is empty.
    pub fn lines(&mut self, lines: Vec<String>) {
        if !lines.is_empty() {
            self.push(Block::Lines(lines));
        }
    }
}

/// Lines of a terminal of 80 x 24.
pub(crate) const SCREEN_LINES: usize = 24;

/// Returns the first document with up to this number of lines of 80 columns, or the last one.
///
/// # Panics
/// If there is no document.
pub(crate) fn first_that_fits(
    max: usize,
    documents: impl IntoIterator<Item = Document>,
) -> Document {
    let mut last = None;
    for document in documents {
        let lines = terminal(&document, Look::default()).len();
        last = Some(document);
        if lines <= max {
            break;
        }
    }
    last.expect("the caller has a document")
}

/// A name from the measured system, or something to type, as a part of a text.
///
/// A backtick in the name cannot end the part.
pub fn code(text: &str) -> String {
    format!("`{}`", printable(text).to_string().replace('`', "\\x60"))
}

/// Returns the name of a file as one word of a shell command. A name that looks like an option
/// gets its directory.
pub fn quoted(name: &str) -> String {
    if name.starts_with('-') {
        return quoted(&format!("./{name}"));
    }
    // An error means a 0 byte, which no path has.
    shlex::try_quote(name).map_or_else(|_| name.into(), Into::into)
}

/// Splits text into its parts. The second value is true for a part between two
/// backticks. A backtick without a partner is plain text.
fn parts(text: &str) -> Vec<(&str, bool)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        let Some((code, after)) = after.split_once('`') else {
            break;
        };
        parts.push((before, false));
        parts.push((code, true));
        rest = after;
    }
    parts.push((rest, false));
    parts.retain(|(part, is_code)| *is_code || !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_word_of_a_shell() {
        assert_eq!(quoted("/tmp/r-1.laggard"), "/tmp/r-1.laggard");
        assert_eq!(quoted("a b"), "'a b'");
        assert!(quoted("x$(id)").starts_with('\''));
        assert_eq!(quoted("-x.laggard"), "./-x.laggard");
        assert_eq!(quoted("--all x"), "'./--all x'");
    }

    #[test]
    fn code_is_between_two_backticks_and_a_name_cannot_end_it() {
        let text = format!("stop {} now", code("a`b\u{1b}"));

        assert_eq!(
            parts(&text),
            [("stop ", false), ("a\\x60b\\x1b", true), (" now", false)]
        );
        assert_eq!(parts("one ` alone"), [("one ` alone", false)]);
        assert_eq!(parts("`a` `"), [("a", true), (" `", false)]);
    }
}
