//! The sentences of the first screen one by one, for what is no terminal.

use laggard_answer::overview::Overview;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::screen::{Screen, Tone};
use super::{Look, Measure, hour, late, parts, verdict};

/// Wider than any sentence: none is broken, or cut.
const ENDLESS: Look = Look {
    columns: 100_000,
    unit: laggard_model::text::Unit::Auto,
};

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

/// The first screen's sentences by part; a part of which there is nothing to say
/// is empty.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct InShort {
    /// What speaks against all that follows.
    pub doubts: Vec<Said>,
    /// Whether the machine serves applications.
    pub verdicts: Vec<Said>,
    /// Caveats that change how the rest is read.
    pub beware: Vec<Said>,
    /// Who made activations late, and what to do first.
    pub late: Vec<Said>,
    /// What the next hour brings.
    pub next_hour: Vec<Said>,
}

/// What the first screen says.
pub(crate) fn said(of: &Overview) -> InShort {
    InShort {
        doubts: sentences(&parts::doubts(of, ENDLESS, Measure::FULL)),
        verdicts: sentences(&verdict::verdicts(of, ENDLESS, Measure::ENDLESS)),
        beware: sentences(&parts::beware(of, ENDLESS, Measure::FULL)),
        late: sentences(&late::late(of, ENDLESS, Measure::FULL)),
        next_hour: sentences(&hour::next_hour(of, ENDLESS, Measure::FULL)),
    }
}

fn sentences(screen: &Screen) -> Vec<Said> {
    let sentence = |line: &[(Tone, String)]| match line {
        [(Tone::Plain, _), ..] | [] => Said {
            tone: Tone::Plain,
            head: String::new(),
            text: joined(line).trim().to_owned(),
        },
        [(tone, head), rest @ ..] => Said {
            tone: *tone,
            head: head.clone(),
            text: joined(rest),
        },
    };
    screen.lines().map(sentence).collect()
}

/// Pieces of a line as one text, with commas where the terminal has columns.
fn joined(pieces: &[(Tone, String)]) -> String {
    let text: String = pieces.iter().map(|(_, text)| text.as_str()).collect();
    let start = if text.starts_with(' ') { " " } else { "" };
    let columns = text.split("  ").map(str::trim);
    let columns: Vec<&str> = columns.filter(|one| !one.is_empty()).collect();
    format!("{start}{}", columns.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_in_columns_becomes_a_sentence_and_what_begins_it_stays_apart() {
        let mut screen = Screen::default();
        screen.plain_line("  59 %  the hypervisor      22 x, up to 1.05 ms");
        screen.push(vec![
            (Tone::Bad, "NOT FIT for a".into()),
            (Tone::Plain, ": often".into()),
        ]);

        let said = sentences(&screen);

        assert_eq!(said[0].text, "59 %, the hypervisor, 22 x, up to 1.05 ms");
        assert_eq!((said[0].tone, said[0].head.as_str()), (Tone::Plain, ""));
        assert_eq!(
            (said[1].tone, said[1].head.as_str()),
            (Tone::Bad, "NOT FIT for a")
        );
        assert_eq!(said[1].text, ": often");
    }
}
