//! Readings: the latencies of one activation.

use crate::{Activation, Batch, Episode, Line, Nanos, Route, STAGES, Service, Stage};

/// Latencies of one activation: of its line, and of the interrupt on the way.
///
/// `irq` does not have a separate line, but readers treat it as one: they process each line's
/// [`Line::interrupts`] as they do the line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Readings {
    /// Time from the expiry to the last stage.
    pub own: Nanos,
    /// Time from the expiry to the interrupt, if it was seen. `None` for a missed
    /// activation, which does not have an interrupt.
    pub irq: Option<Nanos>,
}

impl Readings {
    /// Returns each reading with its line, for an activation of `line`.
    pub fn of(self, line: Line) -> impl Iterator<Item = (Line, Nanos)> {
        let irq = self.irq.map(|latency| (line.interrupts(), latency));
        std::iter::once((line, self.own)).chain(irq)
    }
}

impl Line {
    /// Returns the line of the interrupts on the way to this one: `irq`, direct, on the
    /// same CPU.
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
    /// Returns whether the service has separate lines. `irq` does not: stages before it do not
    /// exist, and missed and lost activations belong to the lines that pass it.
    #[must_use]
    pub const fn has_lines(self) -> bool {
        !matches!(self, Self::Irq)
    }
}

impl Activation {
    /// Returns the readings.
    pub fn readings(&self) -> Readings {
        Readings {
            own: self.latency(),
            irq: self.latency_of(Service::Irq).filter(|_| !self.missed),
        }
    }
}

impl Episode {
    /// Returns the readings.
    pub fn readings(&self) -> Readings {
        Readings {
            own: self.latency(),
            irq: self.stages.get(&Service::Irq.last_stage()).copied(),
        }
    }
}

impl Batch {
    /// Returns the time from the previous stage to `stage` in row `row`; `None` if that
    /// stage does not belong to the line or was not seen.
    #[inline]
    pub fn step(&self, row: usize, stage: Stage) -> Option<Nanos> {
        match self.step_ns[stage.index()].get(row) {
            None | Some(&Self::ABSENT) => None,
            Some(&ns) => Some(Nanos::from_ns(ns)),
        }
    }

    /// Writes the latency of every row, as [`Activation::latency`], to `latencies`, ns: by
    /// column, which is faster than by row.
    pub fn latencies(&self, latencies: &mut Vec<u64>) {
        latencies.clear();
        latencies.resize(self.len(), 0);
        for column in &self.step_ns {
            for (sum, &step) in latencies.iter_mut().zip(column) {
                let step = if step == Self::ABSENT { 0 } else { step };
                *sum = sum.saturating_add(step);
            }
        }
    }

    /// Returns the readings of row `row`, as [`Activation::readings`].
    ///
    /// # Panics
    /// If `row` is not below [`Batch::len`].
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

    const LINE: Line = Line::new(Cpu(3), Service::Fifo(90), Route::Deferred);

    fn activation(missed: bool, steps: &[(Stage, u64)]) -> Activation {
        let mut activation = Activation {
            line: LineId(0),
            seq: 0,
            expiry: Nanos::ZERO,
            missed,
            censored: false,
            steps: [None; STAGES.len()],
        };
        for &(stage, ns) in steps {
            activation.steps[stage.index()] = Some(Nanos::from_ns(ns));
        }
        activation
    }

    #[test]
    fn activation_is_read_as_its_service_and_as_its_interrupt() {
        let served = activation(false, &[(Stage::Irq, 5), (Stage::User, 7)]);

        let read: Vec<(Line, Nanos)> = served.readings().of(LINE).collect();

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
    fn missed_activation_has_no_interrupt() {
        let missed = activation(true, &[(Stage::Irq, 5), (Stage::User, 7)]);

        assert_eq!(missed.readings().irq, None);
    }

    proptest! {
        #[test]
        fn row_is_read_as_its_activation(
            missed in any::<bool>(),
            steps in any::<[Option<u32>; STAGES.len()]>(),
        ) {
            let first = Activation {
                steps: steps.map(|ns| ns.map(|ns| Nanos::from_ns(ns.into()))),
                ..activation(missed, &[])
            };
            let mut batch = Batch::default();
            batch.push(&first);

            assert_eq!(batch.readings(0), first.readings());
        }
    }
}
