//! Figures: the times that the histograms of `keep: tail` count.

use std::fmt;

use crate::{Activation, Nanos, STAGES, Stage};

/// Time of an activation.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Figure {
    /// Latency of a served activation.
    Latency,
    /// Latency of an activation that was missed and served later.
    Missed,
    /// Waiting time of an activation that was still waiting at the end.
    Censored,
    /// Time from `waking` to `user`.
    Thread,
    /// Time from the previous stage to this one.
    Step(Stage),
}

impl Figure {
    /// Number of figures.
    pub const COUNT: usize = 4 + STAGES.len();

    /// Returns every figure of a histogram.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Latency, Self::Missed, Self::Censored, Self::Thread]
            .into_iter()
            .chain(STAGES.into_iter().map(Self::Step))
    }

    /// Returns the position in [`Figure::all`].
    pub const fn index(self) -> usize {
        match self {
            Self::Latency => 0,
            Self::Missed => 1,
            Self::Censored => 2,
            Self::Thread => 3,
            Self::Step(stage) => 4 + stage.index(),
        }
    }

    /// Returns the name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Missed => "missed",
            Self::Censored => "censored",
            Self::Thread => "thread",
            Self::Step(stage) => stage.name(),
        }
    }

    /// Returns the figure with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|figure| figure.name() == name)
    }

    /// Returns this figure of `activation`, if it has it.
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
    fn figure_is_at_its_index_and_is_found_by_its_name() {
        for (index, figure) in Figure::all().enumerate() {
            assert_eq!(figure.index(), index);
            assert_eq!(Figure::from_name(figure.name()), Some(figure));
        }
        assert_eq!(Figure::all().count(), Figure::COUNT);
    }
}
