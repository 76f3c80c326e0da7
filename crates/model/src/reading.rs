//! Readings: the latencies that one activation shows.

use crate::{Activation, Batch, Episode, Line, Nanos, Route, STAGES, Service, Stage};

/// The latencies that one activation shows: of its own line, and of the
/// interrupt on the way there.
///
/// `irq` is measured by no line of its own, and for readers it is one: what
/// they count, collect or show of each line, they do of its
/// [`Line::interrupts`] too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Readings {
    /// From the expiry to the last stage seen.
    pub own: Nanos,
    /// From the expiry to the interrupt, where it was seen. `None` of a missed
    /// activation, which has no interrupt of its own.
    pub irq: Option<Nanos>,
}

impl Readings {
    /// Each with the line that it is of, in an activation of `line`.
    pub fn of(self, line: Line) -> impl Iterator<Item = (Line, Nanos)> {
        let irq = self.irq.map(|latency| (line.interrupts(), latency));
        std::iter::once((line, self.own)).chain(irq)
    }
}

impl Line {
    /// The line under which readers find the interrupts on the way to this
    /// one: `irq`, direct, on the same CPU.
    #[must_use]
    pub const fn interrupts(self) -> Self {
        Self {
            cpu: self.cpu,
            service: Service::Irq,
            route: Route::Direct,
        }
    }
}

impl Service {
    /// Whether it is measured by lines of its own. `irq` is not: it has no
    /// stages on the way to it, and what was missed or lost is of the lines
    /// that pass it.
    #[must_use]
    pub const fn has_lines(self) -> bool {
        !matches!(self, Self::Irq)
    }
}

impl Activation {
    /// The latencies that it shows.
    pub fn readings(&self) -> Readings {
        Readings {
            own: self.latency(),
            irq: self.latency_of(Service::Irq).filter(|_| !self.missed),
        }
    }
}

impl Episode {
    /// The latencies that it shows.
    pub fn readings(&self) -> Readings {
        Readings {
            own: self.latency(),
            irq: self.stages.get(&Service::Irq.last_stage()).copied(),
        }
    }
}

impl Batch {
    /// The time from the stage before to `stage` in row `row`; `None` where
    /// that stage does not belong to the line or was not seen.
    #[inline]
    pub fn step(&self, row: usize, stage: Stage) -> Option<Nanos> {
        match self.step_ns[stage.index()].get(row) {
            None | Some(&Self::ABSENT) => None,
            Some(&ns) => Some(Nanos::from_ns(ns)),
        }
    }

    /// The latency of every row, as [`Activation::latency`], into `all`, ns: column
    /// by column, which is quicker than row by row.
    pub fn latencies(&self, all: &mut Vec<u64>) {
        all.clear();
        all.resize(self.len(), 0);
        for column in &self.step_ns {
            for (sum, &step) in all.iter_mut().zip(column) {
                let step = if step == Self::ABSENT { 0 } else { step };
                *sum = sum.saturating_add(step);
            }
        }
    }

    /// The latencies that row `row` shows, as [`Activation::readings`].
    ///
    /// # Panics
    /// When `row` is not below [`Batch::len`].
    #[inline]
    pub fn readings(&self, row: usize) -> Readings {
        let steps = STAGES.into_iter().filter_map(|stage| self.step(row, stage));
        Readings {
            own: steps.fold(Nanos::ZERO, |sum, step| sum + step),
            irq: if self.missed[row] {
                None
            } else {
                self.step(row, Service::Irq.last_stage())
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;
    use crate::{Cpu, LineId};

    const LINE: Line = Line {
        cpu: Cpu(3),
        service: Service::Fifo(90),
        route: Route::Deferred,
    };

    fn activation(missed: bool, steps: &[(Stage, u64)]) -> Activation {
        let mut one = Activation {
            line: LineId(0),
            seq: 0,
            expiry: Nanos::ZERO,
            missed,
            censored: false,
            steps: [None; STAGES.len()],
        };
        for &(stage, ns) in steps {
            one.steps[stage.index()] = Some(Nanos::from_ns(ns));
        }
        one
    }

    #[test]
    fn an_activation_is_read_as_its_service_s_and_as_the_interrupt_s() {
        let one = activation(false, &[(Stage::Irq, 5), (Stage::User, 7)]);

        let read: Vec<(Line, Nanos)> = one.readings().of(LINE).collect();

        assert_eq!(
            read,
            [
                (LINE, Nanos::from_ns(12)),
                (LINE.interrupts(), Nanos::from_ns(5))
            ]
        );
        assert_eq!(LINE.interrupts().cpu, Cpu(3));
    }

    #[test]
    fn a_missed_activation_has_no_interrupt_of_its_own() {
        let one = activation(true, &[(Stage::Irq, 5), (Stage::User, 7)]);

        assert_eq!(one.readings().irq, None);
    }

    proptest! {
        #[test]
        fn a_row_is_read_as_its_activation_is(
            missed in any::<bool>(),
            steps in any::<[Option<u32>; STAGES.len()]>(),
        ) {
            let one = Activation {
                steps: steps.map(|ns| ns.map(|ns| Nanos::from_ns(ns.into()))),
                ..activation(missed, &[])
            };
            let mut batch = Batch::default();
            batch.push(&one);

            assert_eq!(batch.readings(0), one.readings());
        }
    }
}
