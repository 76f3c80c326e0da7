//! Description of single late wakeups during a measurement.

use laggard_model::{Episode, Line, Names, Symbols};

use super::late::explain_live;
use crate::why::{ExplainedEpisode, LateWakeup};

/// Describes late wakeups, and keeps the last one.
#[derive(Debug)]
pub struct LateWakeupLog {
    names: Box<dyn Names>,
    last: Option<(Episode, Line)>,
}

impl LateWakeupLog {
    /// Creates the log. `names` looks up the names of running code.
    #[must_use]
    pub const fn new(names: Box<dyn Names>) -> Self {
        Self { names, last: None }
    }

    /// Returns the description of a late wakeup.
    pub fn describe(&mut self, episode: &Episode, line: Line) -> LateWakeup {
        let explanation = explain_live(episode, line, &mut *self.names);
        let explained = ExplainedEpisode {
            episode,
            line,
            explanation: explanation.into(),
        };
        let described = LateWakeup::new(&explained, self.names.symbols());
        self.last = Some((episode.clone(), line));
        described
    }

    /// Returns the late wakeup that was described last, with the names in it.
    pub fn last(&self) -> Option<(ExplainedEpisode<'_>, &Symbols)> {
        let (episode, line) = self.last.as_ref()?;
        let symbols = self.names.symbols();
        Some((ExplainedEpisode::new(episode, *line, symbols), symbols))
    }
}
