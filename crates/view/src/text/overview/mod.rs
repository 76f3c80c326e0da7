//! The first screen: what a recording answers, in 80 columns and 24 lines, or in
//! twice the lines where they are shorter.

mod beside;
mod contexts;
mod figures;
mod groups;
mod hour;
mod late;
mod often;
mod parts;
mod said;
mod sentence;
mod verdict;

use super::Look;
use super::screen::Screen;
use laggard_answer::overview::Overview;

pub use beside::overviews;
pub(crate) use late::head as who_made_late;
pub use said::InShort;
pub(crate) use said::said;
pub use sentence::Said;

/// So many lines, and one for the prompt that follows, are what a terminal has.
const LINES: usize = 23;
/// Where it is narrower the table has fewer figures, and what else is said takes
/// twice the lines.
const NARROW: usize = 68;

/// How much of each part is shown: what matters less gives way.
#[derive(Clone, Copy, Debug)]
struct Measure {
    /// Lines of what speaks against all that follows, by sentence.
    doubt: usize,
    /// Caveats that change how the rest is read.
    beware: usize,
    /// How many verdicts, and the lines of each.
    verdicts: usize,
    verdict: usize,
    /// Lines of what is otherwise said in one.
    line: usize,
    services: usize,
    causes: usize,
    /// Lines of what to do first.
    first: usize,
    /// Lines of the next hour.
    hour: usize,
    /// Empty lines between parts.
    gaps: bool,
}

impl Measure {
    /// All of it.
    const FULL: Self = Self {
        doubt: 3,
        beware: 2,
        verdicts: 5,
        verdict: 2,
        line: 1,
        services: 8,
        causes: 3,
        first: 3,
        hour: 2,
        gaps: true,
    };
    const SHORTER: Self = Self {
        doubt: 2,
        ..Self::FULL
    };
    const FEWER_CAUSES: Self = Self {
        causes: 2,
        first: 2,
        ..Self::SHORTER
    };
    const FEWER_SERVICES: Self = Self {
        services: 6,
        ..Self::FEWER_CAUSES
    };
    const DENSE: Self = Self {
        gaps: false,
        ..Self::FEWER_SERVICES
    };
    const DENSER: Self = Self {
        causes: 1,
        verdicts: 4,
        ..Self::DENSE
    };
    const LEAST: Self = Self {
        doubt: 1,
        beware: 1,
        verdicts: 4,
        verdict: 1,
        line: 1,
        services: 5,
        causes: 1,
        first: 1,
        hour: 1,
        gaps: false,
    };

    /// Where there is room without end.
    const ENDLESS: Self = Self {
        verdicts: usize::MAX,
        ..Self::FULL
    };

    /// As much of it, where lines are short.
    const fn on(self, look: Look) -> Self {
        if look.columns >= NARROW {
            return self;
        }
        Self {
            doubt: 2 * self.doubt,
            verdict: 2 * self.verdict,
            line: 2 * self.line,
            first: 2 * self.first,
            hour: 2 * self.hour,
            ..self
        }
    }

    /// From all to the least.
    const EVERY: [Self; 7] = [
        Self::FULL,
        Self::SHORTER,
        Self::FEWER_CAUSES,
        Self::FEWER_SERVICES,
        Self::DENSE,
        Self::DENSER,
        Self::LEAST,
    ];
}

/// The overview of a recording.
pub fn overview(overview: &Overview, look: Look) -> Screen {
    let lines = if look.columns < NARROW {
        2 * LINES
    } else {
        LINES
    };
    let mut screen = Screen::default();
    for measure in Measure::EVERY {
        screen = with(overview, look, measure.on(look));
        if screen.len() <= lines {
            break;
        }
    }
    screen
}

fn with(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let parts = [
        parts::doubts(overview, look, measure),
        parts::conditions(overview, look),
        verdict::verdicts(overview, look, measure),
        contexts::contexts(overview, look, measure),
        parts::beware(overview, look, measure),
        parts::services(overview, look, measure),
        late::late(overview, look, measure),
        hour::next_hour(overview, look, measure),
        parts::end(
            overview,
            look,
            measure,
            late::causes_left_out(overview, measure),
        ),
    ];
    let mut screen = Screen::default();
    for (at, part) in parts.into_iter().enumerate() {
        // The conditions belong to what speaks against them, the caveats to the
        // verdict, and what is said of the measurement comes at the end.
        let is_apart = !part.is_empty() && !matches!(at, 1 | 4 | 8);
        if measure.gaps && is_apart {
            screen.gap();
        }
        screen.append(part);
    }
    screen
}
