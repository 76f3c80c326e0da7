//! Display of external strings (names of threads, paths, symbols, hosts): a name can
//! contain an escape sequence, a line break, or a character that reorders the following
//! text.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// Text with invisible characters escaped, such as `\x1b`, `\n`, `\u{202e}`, and
/// otherwise unchanged. Files and JSON keep the string as it is.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a> {
    text: &'a str,
    form: Form,
}

/// Form of a text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Line,
    Lines,
    Json,
}

/// Returns an external string as one line.
pub const fn printable(text: &str) -> Printable<'_> {
    Printable {
        text,
        form: Form::Line,
    }
}

/// Returns a complete view, whose lines stay lines.
pub const fn printable_lines(text: &str) -> Printable<'_> {
    Printable {
        text,
        form: Form::Lines,
    }
}

/// Returns a JSON text with unchanged values: only strings contain such characters, and
/// an escape there has the same meaning.
pub const fn printable_json(text: &str) -> Printable<'_> {
    Printable {
        text,
        form: Form::Json,
    }
}

/// Escapes lines that GitHub Actions executes: they start with `::`, also after spaces. Line breaks
/// within a paragraph can put a name there. Commands that work anywhere in a line are escaped by
/// [`printable`].
pub fn without_commands(text: &str) -> Cow<'_, str> {
    let is_command = |line: &str| line.trim_start().starts_with("::");
    if !text.lines().any(is_command) {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive('\n').map(|line| {
        if is_command(line) {
            let (spaces, rest) = line.split_at(line.len() - line.trim_start().len());
            let (first, rest) = rest.split_at(1);
            format!("{spaces}{}{rest}", first.escape_unicode())
        } else {
            line.to_owned()
        }
    });
    Cow::Owned(lines.collect())
}

/// Returns the text of an error, which may quote a part of a file. A line break stays
/// only in such a quotation, whose lines have a bar (`12 | name = 1`), and all lines
/// but the first start with a mark: no name can start a line, not even after spaces.
/// Build systems (GitHub Actions) execute lines such as `::error::text` in the output
/// of a program.
pub fn printable_error(text: &str) -> String {
    let mut lines = text.trim_end().split('\n').peekable();
    let first = shortened(lines.next().unwrap_or_default(), MAX_ERROR_CHARS);
    if !lines.clone().any(is_quotation) {
        let one_line = lines.fold(first, |text, line| format!("{text}\\n{}", printable(line)));
        return shortened(&one_line, MAX_ERROR_CHARS);
    }
    lines.fold(first, |text, line| {
        let (mark, limit) = if is_quotation(line) {
            ("  ", MAX_QUOTATION_CHARS)
        } else {
            ("  = ", MAX_ERROR_CHARS)
        };
        format!("{text}\n{mark}{}", shortened(line, limit))
    })
}

/// Maximum length of a line of an error, and of a line that is quoted from a file,
/// characters.
const MAX_ERROR_CHARS: usize = 16_384;
const MAX_QUOTATION_CHARS: usize = 512;

/// Returns the line for display, truncated at the limit.
fn shortened(line: &str, limit: usize) -> String {
    let line = printable(line).to_string();
    match line.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Returns whether a line is spaces, optionally a number, and a bar, as in a parser's
/// quotation of a file.
fn is_quotation(line: &str) -> bool {
    let rest = line
        .trim_start()
        .trim_start_matches(|character: char| character.is_ascii_digit());
    rest.trim_start().starts_with('|')
}

/// Maximum length of a word on a line, characters. A recording can have a name of a megabyte.
const MAX_WORD_CHARS: usize = 1_024;

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'#';
        if self.text.len() <= MAX_WORD_CHARS && self.text.bytes().all(is_plain) {
            return f.write_str(self.text);
        }
        let mut word = 0;
        for (position, character) in self.text.char_indices() {
            word = if character.is_whitespace() {
                0
            } else {
                word + 1
            };
            if self.form == Form::Line && word > MAX_WORD_CHARS {
                if word == MAX_WORD_CHARS + 1 {
                    f.write_str("...")?;
                }
                continue;
            }
            match character {
                '#' if self.form != Form::Json && is_build_command(&self.text[position..]) => {
                    write!(f, "{}", character.escape_unicode())?;
                }
                '\n' if self.form != Form::Line => f.write_char(character)?,
                character
                    if self.form == Form::Json
                        && (character.is_control() || is_unseen(character)) =>
                {
                    write!(f, "\\u{:04x}", u32::from(character))?;
                }
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                character if character.is_control() => {
                    write!(f, "\\x{:02x}", u32::from(character))?
                }
                character if is_unseen(character) => {
                    write!(f, "\\u{{{:x}}}", u32::from(character))?
                }
                character => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// Returns whether a text starts as a command that GitHub Actions (`##[`) or Azure
/// Pipelines (`##vso[`) execute wherever it is in a line.
fn is_build_command(text: &str) -> bool {
    text.starts_with("##[") || text.starts_with("##vso[")
}

/// Returns whether a character changes the text around it (Unicode 16, UAX 9 section 2;
/// line and paragraph separators), or is not permitted by XML 1.0 section 2.2.
const fn is_unseen(character: char) -> bool {
    matches!(
        character,
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
    fn no_line_is_a_command_for_a_build_system() {
        for (text, shown) in [
            ("a ::b::c\n", "a ::b::c\n"),
            ("::add-mask::e", "\\u{3a}:add-mask::e"),
            (
                "w, which ran\n    ::add-mask::e, more\n\u{3000}::group::x\n",
                "w, which ran\n    \\u{3a}:add-mask::e, more\n\u{3000}\\u{3a}:group::x\n",
            ),
        ] {
            assert_eq!(without_commands(text), shown);
        }
        for (text, shown) in [
            ("idle, ##[error]x y", "idle, \\u{23}#[error]x y"),
            ("a ##vso[task.complete]", "a \\u{23}#vso[task.complete]"),
            ("## [link] #[x] ###[", "## [link] #[x] #\\u{23}#["),
        ] {
            assert_eq!(printable(text).to_string(), shown);
        }
    }

    #[test]
    fn name_in_an_error_starts_no_line() {
        for (text, shown) in [
            (
                "read `a\n::error::b`: no such file\n",
                "read `a\\n::error::b`: no such file",
            ),
            (
                "bad at line 1\n  |\n1 | x = 1\n  | ^\nunknown `a\n ::error::b`",
                "bad at line 1\n    |\n  1 | x = 1\n    | ^\n  = unknown `a\n  =  ::error::b`",
            ),
            ("a\r::error::b\u{1b}[1m", "a\\r::error::b\\x1b[1m"),
        ] {
            let error = printable_error(text);

            assert_eq!(error, shown);
            assert!(
                !error
                    .lines()
                    .any(|line| line.trim_start().starts_with("::"))
            );
        }
    }

    #[test]
    fn long_word_is_truncated_and_the_rest_of_the_line_is_shown() {
        let name = "x".repeat(1 << 20);

        let line = printable(&format!("load {name} on 2 CPUs")).to_string();

        assert!(line.starts_with("load xxx"), "{}", &line[..20]);
        assert!(line.ends_with("xxx... on 2 CPUs"));
        assert!(line.len() < 1_100, "{}", line.len());
        let path = "x".repeat(1_024);
        assert_eq!(printable(&path).to_string(), path);
        // Lines of stacks and tables stay whole.
        assert_eq!(printable_lines(&name).to_string().len(), name.len());
    }

    #[test]
    fn long_error_is_truncated() {
        let (brackets, letters) = ("[".repeat(1 << 20), "x".repeat(1 << 20));
        let error = printable_error(&format!("bad\n1 | {brackets}\nunknown {letters}"));

        assert!(error.len() < 20_000, "{}", error.len());
        // The remedy after a long name stays.
        let error = printable_error(&format!("`{letters}` is unknown; see --list"));
        assert!(error.ends_with("is unknown; see --list"), "{}", error.len());
    }

    #[test]
    fn invisible_characters_are_shown_and_others_unchanged() {
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
