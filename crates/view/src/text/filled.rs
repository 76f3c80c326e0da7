//! Sentences in lines of 80 columns.

use std::fmt::Write as _;

use laggard_answer::Note;
use laggard_model::printable;

/// Text is broken where it is wider than this.
const WIDTH: usize = 80;

/// `text` in lines of 80 columns, each behind `indent`. A word that is longer
/// has a line of its own.
pub(super) fn filled(indent: &str, text: &str) -> String {
    hanging(indent, indent, text)
}

/// The same, with the lines after the first behind `rest`.
pub(super) fn hanging(first: &str, rest: &str, text: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        let is_full = line.chars().count() + 1 + word.chars().count() > WIDTH;
        if is_full && !is_empty {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(lines, "{line}");
            line = rest.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    let _ = writeln!(lines, "{line}");
    lines
}

/// Those of `notes` that make everything that is answered doubtful, in lines
/// of 80 columns.
pub(super) fn warned(notes: &[Note]) -> String {
    notes
        .iter()
        .filter(|note| note.is_warning())
        .map(|note| filled("  ", &printable(&note.to_string()).to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_full_and_no_wider_than_80_columns() {
        let text = "word ".repeat(40);

        let lines = hanging("  - ", "    ", text.trim_end());

        let widths: Vec<usize> = lines.lines().map(str::len).collect();
        assert_eq!(widths, [78, 78, 53], "{lines}");
        assert!(lines.starts_with("  - word") && lines.contains("\n    word"));
    }

    #[test]
    fn a_word_that_is_too_long_has_a_line_of_its_own() {
        let long = "n".repeat(100);

        let lines = filled("  ", &format!("a {long} b"));

        assert_eq!(lines, format!("  a\n  {long}\n  b\n"));
    }
}
