//! Strings from elsewhere (names of threads, paths, symbols, hosts), as they
//! may be shown: a name can hold an escape sequence, a new line, or a mark
//! that turns the order of what follows.

use std::fmt::{self, Write as _};

/// Text that shows what cannot be seen, such as `\x1b`, `\n`, `\u{202e}`, and
/// changes nothing else. Files and JSON keep the string as it is.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a> {
    text: &'a str,
    form: Form,
}

/// What a text is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Line,
    Lines,
    Json,
}

/// A string from elsewhere: one line, whatever it holds.
pub const fn printable(text: &str) -> Printable<'_> {
    Printable {
        text,
        form: Form::Line,
    }
}

/// A whole view, whose lines stay lines.
pub const fn printable_lines(text: &str) -> Printable<'_> {
    Printable {
        text,
        form: Form::Lines,
    }
}

/// A JSON text, whose values stay what they are: only strings hold such
/// characters, and there an escape stands for the same.
pub const fn printable_json(text: &str) -> Printable<'_> {
    Printable {
        text,
        form: Form::Json,
    }
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in self.text.chars() {
            match one {
                '\n' if self.form != Form::Line => f.write_char(one)?,
                one if self.form == Form::Json && (one.is_control() || is_unseen(one)) => {
                    write!(f, "\\u{:04x}", u32::from(one))?;
                }
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                one if one.is_control() => write!(f, "\\x{:02x}", u32::from(one))?,
                one if is_unseen(one) => write!(f, "\\u{{{:x}}}", u32::from(one))?,
                one => f.write_char(one)?,
            }
        }
        Ok(())
    }
}

/// Marks that change what is around them (Unicode 16, UAX 9 section 2; line
/// and paragraph separators), and what XML 1.0 section 2.2 does not allow.
const fn is_unseen(one: char) -> bool {
    matches!(
        one,
        '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown_and_nothing_else_changes() {
        for (text, shown) in [
            ("kworker/1:2", "kworker/1:2"),
            ("\u{1b}[2Jx\nINJ", "\\x1b[2Jx\\nINJ"),
            ("a\u{9b}31m\u{7f}\t\r", "a\\x9b31m\\x7f\\t\\r"),
            ("\u{202e}gpj.exe\u{2066}", "\\u{202e}gpj.exe\\u{2066}"),
            ("Müller \u{1f600} \\x", "Müller \u{1f600} \\x"),
        ] {
            assert_eq!(printable(text).to_string(), shown);
        }
        assert_eq!(printable_lines("a\n\u{7}b\n").to_string(), "a\n\\x07b\n");
        assert_eq!(
            printable_json("[\n \"\u{9b}2J\u{202e}\"]\n").to_string(),
            "[\n \"\\u009b2J\\u202e\"]\n"
        );
    }
}
