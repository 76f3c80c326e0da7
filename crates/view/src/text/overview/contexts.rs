//! What is said of deferred work beside busy processes.

use laggard_answer::overview::Overview;

use super::super::screen::{Screen, Tone};
use super::{Look, Measure};

/// The sentences, where it was measured.
pub(super) fn contexts(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    let contexts = overview.contexts.iter();
    for sentence in contexts.flat_map(|one| &one.sentences) {
        let room = look.room(measure.verdict + 2, 2);
        screen.fill(sentence, (Tone::Plain, 0), room);
    }
    screen
}
