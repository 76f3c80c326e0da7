//! Colours that all kinds of colour vision can distinguish, and signs for output without colours.

use laggard_model::Nanos;
use ratatui::style::{Color, Modifier, Style};

/// Levels of lateness: each is ten times the one before.
const LEVELS: [(Nanos, &str, char, u8); 5] = [
    (Nanos::from_us(10), "<10us", '·', 67),
    (Nanos::from_us(100), "<100us", '░', 74),
    (Nanos::from_ms(1), "<1ms", '▒', 186),
    (Nanos::from_ms(10), "<10ms", '▓', 214),
    (Nanos::MAX, "more", '█', 202),
];

/// Styles. The colours are from the 256 that nearly every terminal supports, blue to orange, and
/// colour-blind users can distinguish them. Each level also has a separate sign.
#[derive(Clone, Copy, Debug)]
pub(in crate::top) struct Palette {
    coloured: bool,
}

impl Palette {
    /// Colours unless the environment asks for none (<https://no-color.org>).
    pub(in crate::top) fn of_environment() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { coloured: !refused }
    }

    #[cfg(test)]
    pub(in crate::top) const fn plain() -> Self {
        Self { coloured: false }
    }

    fn coloured(self, index: u8) -> Style {
        if self.coloured {
            Style::new().fg(Color::Indexed(index))
        } else {
            Style::new()
        }
    }

    pub(super) fn title(self) -> Style {
        self.coloured(74).add_modifier(Modifier::BOLD)
    }

    pub(super) fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn warning(self) -> Style {
        self.coloured(214).add_modifier(Modifier::BOLD)
    }

    /// Returns the style of a count's bar.
    pub(super) fn counts(self) -> Style {
        self.coloured(74)
    }

    /// Returns the style of a latency according to its size. Usual latencies are not styled.
    pub(super) fn latency(self, latency: Option<Nanos>) -> Style {
        match latency {
            Some(late) if late >= Nanos::from_ms(1) => {
                self.coloured(level(late).3).add_modifier(Modifier::BOLD)
            }
            _ => Style::new(),
        }
    }

    /// A cell of the map.
    pub(super) fn cell(self, latency: Nanos) -> (char, Style) {
        let (_, _, sign, colour) = level(latency);
        (sign, self.coloured(colour))
    }

    /// Every level's sign and name.
    pub(super) fn legend(self) -> impl Iterator<Item = (char, &'static str, Style)> {
        LEVELS
            .into_iter()
            .map(move |(_, name, sign, colour)| (sign, name, self.coloured(colour)))
    }
}

fn level(latency: Nanos) -> (Nanos, &'static str, char, u8) {
    LEVELS
        .into_iter()
        .find(|(limit, ..)| latency < *limit)
        .unwrap_or(LEVELS[LEVELS.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_a_sign_of_its_own_so_that_no_colour_is_needed() {
        let plain = Palette::plain();
        let mut signs: Vec<char> = plain.legend().map(|(sign, ..)| sign).collect();
        signs.sort_unstable();
        signs.dedup();

        assert_eq!(signs.len(), LEVELS.len());
        assert!(plain.legend().all(|(_, _, style)| style.fg.is_none()));
        assert_eq!(plain.cell(Nanos::from_us(9)).0, '·');
        assert_eq!(plain.cell(Nanos::from_us(10)).0, '░');
        assert_eq!(plain.cell(Nanos::MAX).0, '█');
    }
}
