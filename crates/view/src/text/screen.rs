//! Lines for a terminal: pieces of text with a tone, which a terminal shows as a color.

use laggard_model::printable;
use schemars::JsonSchema;
use serde::Serialize;

/// Units that stay on the line of their number.
const UNITS: [&str; 10] = [
    "ns", "us", "ms", "s", "min", "h", "days", "years", "%", "CPUs",
];

/// Tone of a piece of text.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// Without a tone.
    #[default]
    Plain,
    /// Most prominent.
    Strong,
    /// Good result.
    Good,
    /// Bad result.
    Bad,
    /// Neither, yet.
    Open,
    /// Rarely needed.
    Faint,
}

impl Tone {
    /// Returns the code of ECMA-48 8.3.117, select graphic rendition.
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

    /// Renders with colours, for a terminal that supports them.
    pub fn coloured(&self) -> String {
        self.written(|tone, text| match tone.code() {
            "" => text,
            code => format!("\x1b[{code}m{text}\x1b[0m"),
        })
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns true if there are no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn written(&self, paint: impl Fn(Tone, String) -> String) -> String {
        let mut text_of_screen = String::new();
        for line in &self.lines {
            for (tone, text) in line {
                text_of_screen += &paint(*tone, printable(text).to_string());
            }
            text_of_screen.push('\n');
        }
        text_of_screen
    }

    pub(crate) fn push(&mut self, line: Vec<(Tone, String)>) {
        self.lines.push(line);
    }

    /// Adds an empty line between two parts, unless the screen is empty.
    pub(crate) fn gap(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(Vec::new());
        }
    }
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
