//! How text is written for who reads it: how wide, and in which unit.

use std::fmt::Write as _;

use laggard_answer::Note;
use laggard_model::printable;
use laggard_model::text::Unit;

use super::screen::{unbroken_words, width};

/// How a text is written.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The width of the terminal.
    pub columns: usize,
    /// The unit of times in tables.
    pub unit: Unit,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            columns: 80,
            unit: Unit::Auto,
        }
    }
}

impl Look {
    /// `text` in lines that fit, each behind `indent`. A word that is longer has
    /// a line of its own.
    pub(super) fn filled(self, indent: &str, text: &str) -> String {
        self.hanging(indent, indent, text)
    }

    /// The same, with the lines after the first behind `rest`.
    pub(super) fn hanging(self, first: &str, rest: &str, text: &str) -> String {
        let mut lines = String::new();
        let mut line = first.to_owned();
        let mut is_empty = true;
        for word in unbroken_words(text) {
            let is_full = width(&line) + 1 + width(&word) > self.columns;
            if is_full && !is_empty {
                // Writing to a string cannot fail, here and below.
                let _ = writeln!(lines, "{line}");
                line = rest.to_owned();
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line += &word;
            is_empty = false;
        }
        let _ = writeln!(lines, "{line}");
        lines
    }

    /// Those of `notes` that make everything that is answered doubtful.
    pub(super) fn warned(self, notes: &[Note]) -> String {
        notes
            .iter()
            .filter(|note| note.is_warning())
            .map(|note| self.filled("  ", &printable(&note.to_string()).to_string()))
            .collect()
    }

    /// All of `notes`, below everything else; nothing where there are none.
    pub(super) fn to_bear_in_mind(self, notes: &[Note]) -> String {
        match notes {
            [] => String::new(),
            notes => format!("\nTo bear in mind:\n{}", self.noted(notes)),
        }
    }

    /// `notes`, each behind a mark.
    pub(super) fn noted(self, notes: &[Note]) -> String {
        notes
            .iter()
            .map(|note| {
                let note = printable(&note.to_string()).to_string();
                self.hanging("  - ", "    ", &note)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_full_and_no_wider_than_the_terminal() {
        let text = "word ".repeat(40);

        for (columns, expected) in [(80, &[78, 78, 53][..]), (120, &[118, 88])] {
            let look = Look {
                columns,
                ..Look::default()
            };
            let lines = look.hanging("  - ", "    ", text.trim_end());

            let widths: Vec<usize> = lines.lines().map(str::len).collect();
            assert_eq!(widths, expected, "{lines}");
            assert!(lines.starts_with("  - word") && lines.contains("\n    word"));
        }
    }

    #[test]
    fn a_word_that_is_too_long_has_a_line_of_its_own() {
        let long = "n".repeat(100);

        let lines = Look::default().filled("  ", &format!("a {long} b"));

        assert_eq!(lines, format!("  a\n  {long}\n  b\n"));
    }
}
