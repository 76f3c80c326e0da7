//! Lines for a terminal of a known width: pieces of text that say what they
//! mean, so that a terminal can colour them and a pipe need not.

use laggard_model::printable;
use schemars::JsonSchema;
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

/// What follows a number on the same line.
const UNITS: [&str; 10] = [
    "ns", "us", "ms", "s", "min", "h", "days", "years", "%", "CPUs",
];
/// What ends a text that was cut.
const CUT: &str = "...";

/// What a piece of text means to its reader.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// Nothing but what it says.
    #[default]
    Plain,
    /// What the eye is to find first.
    Strong,
    /// What one would wish.
    Good,
    /// What one would not.
    Bad,
    /// Neither, yet.
    Open,
    /// What few will need.
    Faint,
}

impl Tone {
    /// Of ECMA-48 8.3.117, select graphic rendition.
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Good => "1;32",
            Self::Bad => "1;31",
            Self::Open => "1;33",
            Self::Faint => "2",
        }
    }
}

/// A text that is shown on a terminal as a whole.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    lines: Vec<Vec<(Tone, String)>>,
}

impl Screen {
    /// Without colours, for a pipe.
    pub fn plain(&self) -> String {
        self.written(|_, text| text)
    }

    /// With colours, for a terminal that has them.
    pub fn coloured(&self) -> String {
        self.written(|tone, text| match tone.code() {
            "" => text,
            code => format!("\x1b[{code}m{text}\x1b[0m"),
        })
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn written(&self, paint: impl Fn(Tone, String) -> String) -> String {
        let mut all = String::new();
        for line in &self.lines {
            for (tone, text) in line {
                all += &paint(*tone, printable(text).to_string());
            }
            all.push('\n');
        }
        all
    }

    /// The lines, in pieces that say what they mean.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &[(Tone, String)]> {
        self.lines.iter().map(Vec::as_slice)
    }

    pub(crate) fn push(&mut self, line: Vec<(Tone, String)>) {
        self.lines.push(line);
    }

    pub(crate) fn plain_line(&mut self, text: impl Into<String>) {
        self.push(vec![(Tone::Plain, text.into())]);
    }

    /// A line between two parts, unless there is nothing above it.
    pub(crate) fn gap(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(Vec::new());
        }
    }

    /// Each line behind a mark, the first behind `mark` itself.
    #[must_use]
    pub(crate) fn marked(self, mark: &str, columns: usize) -> Self {
        let lines = self.lines.into_iter().enumerate().map(|(at, line)| {
            let mark = if at == 0 { mark } else { "" };
            let mut marked = vec![(Tone::Plain, format!("{mark:columns$}"))];
            marked.extend(line);
            marked
        });
        Self {
            lines: lines.collect(),
        }
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.lines.append(&mut other.lines);
    }

    /// `text` in at most `most` lines of so many `columns`, the following ones
    /// behind `indent`; what begins it, of so many letters, has a tone.
    pub(crate) fn fill(&mut self, text: &str, start: (Tone, usize), room: Room) {
        for (at, line) in wrapped(text, room).into_iter().enumerate() {
            let head = if at == 0 { start.1 } else { 0 };
            let split = line
                .char_indices()
                .nth(head)
                .map_or(line.len(), |(split, _)| split);
            let (head, rest) = line.split_at(split);
            let pieces = [(start.0, head), (Tone::Plain, rest)];
            let pieces = pieces.into_iter().filter(|(_, text)| !text.is_empty());
            self.push(pieces.map(|(tone, text)| (tone, text.to_owned())).collect());
        }
    }
}

/// Where a text is to go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) columns: usize,
    pub(crate) lines: usize,
    /// Before the second line and those after it.
    pub(crate) indent: usize,
}

/// A text is cut before a word that has no room, unless that leaves less than this
/// share of it.
const LEAST_WHOLE: (usize, usize) = (2, 3);

/// How many columns a text takes as it is shown.
pub(crate) fn width(text: &str) -> usize {
    printable(text).to_string().width()
}

/// The text as it is shown, cut visibly where it takes more columns.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    let text = printable(text).to_string();
    if text.width() <= columns {
        return text;
    }
    let mut short = String::new();
    for letter in text.chars() {
        short.push(letter);
        if short.width() + CUT.len() > columns {
            short.pop();
            break;
        }
    }
    let is_in_word = text[short.len()..].starts_with(|next| next != ' ');
    let (part, of) = LEAST_WHOLE;
    if let Some(end) = short.rfind(' ').filter(|_| is_in_word)
        && short[..end].width() * of >= short.width() * part
    {
        short.truncate(end);
    }
    // Nothing follows a comma any more.
    let short = short.trim_end_matches([' ', ',', ';', ':']);
    short.to_owned() + CUT.get(..columns).unwrap_or(CUT)
}

/// How many lines of so many columns a text takes.
pub(crate) fn lines(text: &str, columns: usize, indent: usize) -> usize {
    let room = Room {
        columns,
        lines: usize::MAX,
        indent,
    };
    wrapped(text, room).len()
}

/// The text in lines, broken between words; a word that is wider than a line
/// is cut, and so is the last line where more follows.
fn wrapped(text: &str, room: Room) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let start = text.len() - text.trim_start_matches(' ').len();
    let mut line = " ".repeat(start);
    let words = unbroken_words(&text[start..]);
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let is_last = lines.len() + 1 == room.lines;
        let apart = usize::from(!line.trim().is_empty());
        if width(&line) + apart + width(word) <= room.columns {
            if apart == 1 {
                line.push(' ');
            }
            line += word;
            continue;
        }
        if is_last {
            let rest: Vec<&str> = std::iter::once(word).chain(words).collect();
            lines.push(cut(&format!("{line} {}", rest.join(" ")), room.columns));
            return lines;
        }
        if !line.trim().is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        let indent = if lines.is_empty() { 0 } else { room.indent };
        line = " ".repeat(indent) + &cut(word, room.columns.saturating_sub(indent));
    }
    lines.push(line);
    lines
}

/// Splits text into parts that stay on one line: words, and numbers with their units.
pub(crate) fn unbroken_words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let unit = word.trim_end_matches([',', ';', '.', ':', ')', ']']);
        match words.last_mut() {
            Some(number) if UNITS.contains(&unit) && number.ends_with(is_digit) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

const fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room {
        columns: 20,
        lines: 2,
        indent: 2,
    };

    #[test]
    fn a_text_is_broken_between_words_and_cut_where_it_is_too_long() {
        for (text, expected) in [
            ("short", &["short"][..]),
            ("one two three four five", &["one two three four", "  five"]),
            (
                "one two three four five six seven eight nine",
                &["one two three four", "  five six seven..."],
            ),
            // A number is not parted from its unit.
            (
                "about every 3.2 s to 13 min",
                &["about every 3.2 s to", "  13 min"],
            ),
            (
                "  behind what stands before it",
                &["  behind what stands", "  before it"],
            ),
            (
                "a-word-that-is-wider-than-the-line it",
                &["a-word-that-is-wi...", "  it"],
            ),
        ] {
            let lines = wrapped(text, ROOM);

            assert_eq!(lines[..lines.len()], *expected, "for {text}");
            assert!(lines.iter().all(|line| width(line) <= 20), "{lines:?}");
        }
    }

    #[test]
    fn a_cut_counts_the_columns_of_wide_letters_and_shows_what_cannot_be_seen() {
        assert_eq!(cut("音声スレッド", 8), "音声...");
        assert_eq!(cut("a\u{1b}b", 8), "a\\x1bb");
        assert_eq!(cut("abc", 2), "..");
        assert_eq!(cut("came late, and why is not known", 13), "came late...");
        assert_eq!(
            cut("came late, and why is not known", 26),
            "came late, and why is..."
        );
        assert_eq!(cut("came unaccountably-late", 16), "came unaccoun...");
        assert_eq!(width(&cut("音声スレッド", 8)), 7);
        // A letter can be of several characters.
        let accents = "e\u{301}".repeat(10);
        assert_eq!(cut(&accents, 8), "e\u{301}".repeat(5) + "...");
    }

    #[test]
    fn colours_are_added_to_the_same_text_and_none_is_passed_on() {
        let mut screen = Screen::default();
        screen.push(vec![
            (Tone::Bad, "NOT FIT".into()),
            (Tone::Plain, " for \u{1b}[2J".into()),
        ]);

        assert_eq!(screen.plain(), "NOT FIT for \\x1b[2J\n");
        assert_eq!(
            screen.coloured(),
            "\u{1b}[1;31mNOT FIT\u{1b}[0m for \\x1b[2J\n"
        );
    }
}
