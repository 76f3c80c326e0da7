//! Figures: the times that histograms of `keep: tail` count.

use std::fmt;

use laggard_model::{Activation, Nanos, STAGES, Stage};

/// One of the times of an activation.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Figure {
    /// The latency of an activation that was served.
    Latency,
    /// The latency of an activation that was missed and served later.
    Missed,
    /// How long an activation had waited that was still waiting at the end.
    Censored,
    /// From `waking` to `user`.
    Thread,
    /// From the stage before to this one.
    Step(Stage),
}

/// How many figures there are.
pub(crate) const FIGURES: usize = 4 + STAGES.len();

impl Figure {
    /// Every figure that a histogram can be of.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Latency, Self::Missed, Self::Censored, Self::Thread]
            .into_iter()
            .chain(STAGES.into_iter().map(Self::Step))
    }

    /// Its place in [`Figure::all`].
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Latency => 0,
            Self::Missed => 1,
            Self::Censored => 2,
            Self::Thread => 3,
            Self::Step(stage) => 4 + stage.index(),
        }
    }

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Missed => "missed",
            Self::Censored => "censored",
            Self::Thread => "thread",
            Self::Step(stage) => stage.name(),
        }
    }

    /// The figure of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|figure| figure.name() == name)
    }

    /// This figure of `activation`, if it has it.
    pub fn of(self, activation: &Activation) -> Option<Nanos> {
        match self {
            Self::Latency => (!activation.missed).then(|| activation.latency()),
            Self::Missed => {
                (activation.missed && !activation.censored).then(|| activation.latency())
            }
            Self::Censored => activation.censored.then(|| activation.latency()),
            // The last step of a missed activation counts from its expiry.
            Self::Step(_) | Self::Thread if activation.missed => None,
            Self::Step(stage) => activation.steps[stage.index()],
            Self::Thread => {
                activation.steps[Stage::Waking.index()]?;
                let step = |stage: Stage| activation.steps[stage.index()];
                Some(step(Stage::Running)? + step(Stage::User)?)
            }
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_stands_at_its_index_and_is_found_by_its_name() {
        for (index, figure) in Figure::all().enumerate() {
            assert_eq!(figure.index(), index);
            assert_eq!(Figure::from_name(figure.name()), Some(figure));
        }
        assert_eq!(Figure::all().count(), FIGURES);
    }
}
