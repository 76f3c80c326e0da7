//! Notes that several recordings share are printed once.

use std::collections::BTreeSet;

use laggard_answer::Note;
use laggard_model::printable;

use crate::phrase::trust;

/// Merges notes of several recordings that differ only in their figures, in the order of their
/// first occurrence.
///
/// A note of one recording is printed unchanged. A note that several share is printed with their
/// number and the figures of the first.
pub(crate) fn shared<'a>(
    notes: impl IntoIterator<Item = &'a Note>,
    recordings: usize,
) -> Vec<String> {
    let mut shared_notes: Vec<SharedNote<'a>> = Vec::new();
    for note in notes {
        let words = trust::doubt(&note.doubt);
        let form = without_figures(&words);
        match shared_notes
            .iter_mut()
            .find(|note_of_form| note_of_form.form == form)
        {
            Some(one) => one.add(note, &words),
            None => shared_notes.push(SharedNote {
                first: note,
                form,
                is_same: true,
                of: note.recording.as_deref().into_iter().collect(),
                words,
            }),
        }
    }
    let texts = shared_notes
        .iter()
        .map(|note_of_form| note_of_form.told(recordings));
    texts.map(|note| printable(&note).to_string()).collect()
}

/// Note of one or several recordings.
struct SharedNote<'a> {
    first: &'a Note,
    words: String,
    /// Words without their figures.
    form: String,
    /// True if the figures are the same in all.
    is_same: bool,
    of: BTreeSet<&'a str>,
}

impl<'a> SharedNote<'a> {
    fn add(&mut self, note: &'a Note, words: &str) {
        self.is_same &= self.words == words;
        self.of.extend(note.recording.as_deref());
    }

    fn told(&self, recordings: usize) -> String {
        let first = match &self.first.recording {
            Some(first) if self.of.len() > 1 => first,
            Some(_) | None => return trust::note(self.first),
        };
        let several = match self.of.len() {
            all if all == recordings => format!("in all {all}"),
            some => format!("in {some} of {recordings}"),
        };
        if self.is_same {
            format!("{several}: {}", self.words)
        } else {
            format!("{several}, as in {first}: {}", self.words)
        }
    }
}

/// Returns `words` with a placeholder for each number.
fn without_figures(words: &str) -> String {
    let mut form = String::with_capacity(words.len());
    let mut letters = words.chars().peekable();
    while let Some(letter) = letters.next() {
        if !letter.is_ascii_digit() {
            form.push(letter);
            continue;
        }
        form.push('#');
        // `1,438` and `0.5` are single numbers. A full stop after a number is not part of it.
        let mut rest = letters.clone();
        while let Some(next) = rest.next() {
            let is_inside =
                matches!(next, ',' | '.') && rest.peek().is_some_and(char::is_ascii_digit);
            if !next.is_ascii_digit() && !is_inside {
                break;
            }
            letters.next();
        }
    }
    form
}

#[cfg(test)]
mod tests {
    use laggard_answer::Doubt;
    use laggard_model::{Caveat, CaveatKind};

    use super::*;

    fn cost(recording: &str, share: &str) -> Note {
        Note {
            recording: Some(recording.into()),
            doubt: Doubt::Caveat(Caveat::new(
                CaveatKind::NotRoot,
                format!("measuring took {share} % of a CPU"),
                "record less",
            )),
        }
    }

    #[test]
    fn shared_note_is_printed_once_with_the_number_of_recordings() {
        let script = |name: &str| Note {
            recording: Some(name.into()),
            doubt: Doubt::Scripted,
        };
        let notes = [
            cost("r1", "13"),
            script("r1"),
            cost("r2", "9.5"),
            script("r2"),
            script("r3"),
        ];

        let texts = shared(&notes, 3);

        assert_eq!(
            texts,
            [
                "in 2 of 3, as in r1: measuring took 13 % of a CPU; record less",
                "in all 3: from a script: NOT a measurement",
            ]
        );
    }

    #[test]
    fn different_or_single_notes_are_printed_unchanged() {
        let notes = [
            cost("r1", "13"),
            cost("r2", "a lot"),
            Note {
                recording: None,
                doubt: Doubt::Lost(7),
            },
        ];

        let texts = shared(&notes, 2);

        assert_eq!(texts[0], "r1: measuring took 13 % of a CPU; record less");
        assert_eq!(texts[1], "r2: measuring took a lot % of a CPU; record less");
        assert_eq!(
            texts[2],
            "7 samples were lost; they may have been late ones"
        );
    }

    #[test]
    fn a_number_is_one_mark_however_long() {
        let forms = ["1,438 of 2.5 s.", "9 of 12 s."].map(without_figures);

        assert_eq!(forms, ["# of # s.", "# of # s."]);
    }
}
