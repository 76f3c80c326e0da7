//! Figures as they are written, also of waits of which some came before they were due:
//! by how much is not kept, so that nothing is told that is made of them.

use laggard_answer::show::{Figures, RecordingReport, Share};
use laggard_model::Nanos;
use laggard_model::text::{Unit, count};

/// In place of a time of those that came early.
const EARLY: &str = "early";
/// Early ones count as 0 late: the upper edge of the bucket in which they are.
const EDGE: Nanos = Nanos::from_ns(1);

/// How the figures of a recording are written.
#[derive(Clone, Copy)]
pub(super) struct FigureWords {
    unit: Unit,
    early: u64,
}

impl FigureWords {
    pub(super) fn of(report: &RecordingReport, unit: Unit) -> Self {
        let early = report.plan.rows.early();
        Self { unit, early }
    }

    /// Whether some of these came early.
    fn have_early(self, figures: &Figures) -> bool {
        self.early > 0 && figures.min_ns == Some(Nanos::ZERO)
    }

    pub(super) fn least(self, figures: &Figures) -> Option<String> {
        if self.have_early(figures) {
            Some(EARLY.into())
        } else {
            figures.min_ns.map(|time| self.unit.write_nanos(time))
        }
    }

    pub(super) fn mean(self, figures: &Figures) -> Option<String> {
        let is_told = !self.have_early(figures);
        is_told.then(|| figures.mean(self.unit)).flatten()
    }

    pub(super) fn deviation(self, figures: &Figures) -> Option<String> {
        let told = figures.deviation_ns.filter(|_| !self.have_early(figures));
        told.map(|time| self.unit.write(time))
    }

    pub(super) fn share(self, figures: &Figures, share: &Share) -> String {
        let is_early = share.ns.is_some_and(|ns| ns <= EDGE);
        if is_early && self.have_early(figures) {
            EARLY.into()
        } else {
            share.write(self.unit)
        }
    }

    /// What `early` means; `None`: none came early.
    pub(super) fn note(self, samples: u64) -> Option<String> {
        (self.early > 0).then(|| {
            format!(
                "early: before it was due; {} of {} waits were, by how much is not kept, so that neither mean nor deviation are told",
                count(self.early),
                count(samples)
            )
        })
    }
}
