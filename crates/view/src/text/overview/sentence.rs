//! A sentence, for what is no terminal.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::screen::{Screen, Tone};

/// A sentence of the first screen.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Said {
    /// What it means to its reader.
    pub tone: Tone,
    /// How it begins, which has the tone; may be empty.
    pub head: String,
    /// The rest of it.
    pub text: String,
}

impl Said {
    pub(super) const fn plain(text: String) -> Self {
        Self {
            tone: Tone::Plain,
            head: String::new(),
            text,
        }
    }
}

/// A sentence for each line of a screen that has no columns.
pub(super) fn sentences(screen: &Screen) -> Vec<Said> {
    let text = |pieces: &[(Tone, String)]| pieces.iter().map(|(_, text)| text.as_str()).collect();
    let sentence = |line: &[(Tone, String)]| match line {
        [(Tone::Plain, _), ..] | [] => {
            let text: String = text(line);
            Said::plain(text.trim_start().to_owned())
        }
        [(tone, head), rest @ ..] => Said {
            tone: *tone,
            head: head.clone(),
            text: text(rest),
        },
    };
    screen.lines().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_a_sentence_stays_apart() {
        let mut screen = Screen::default();
        screen.push(vec![
            (Tone::Bad, "NOT FIT for a".into()),
            (Tone::Plain, ": often".into()),
        ]);

        let said = sentences(&screen);

        assert_eq!(
            (said[0].tone, said[0].head.as_str()),
            (Tone::Bad, "NOT FIT for a")
        );
        assert_eq!(said[0].text, ": often");
    }
}
