//! Activations: one timer expiry and what followed from it.

use crate::{LineId, Nanos, STAGES, Service, Stage};

/// One timer expiry on one CPU and everything that follows from it.
///
/// Identified by its line and sequence number. The stages are kept as the
/// time since the stage before (the first: since `expiry`), so that the parts
/// add up to the latency exactly.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Activation {
    /// Which stream it belongs to.
    pub line: LineId,
    /// Its number in that stream; gaps are expiries that were lost.
    pub seq: u64,
    /// The programmed time, `CLOCK_MONOTONIC`.
    pub expiry: Nanos,
    /// Whether the service was still busy with an earlier expiry when this
    /// one passed. Only the last stage is set then: when the service next
    /// ran, so the latency is what a queued request would have seen.
    pub missed: bool,
    /// Whether the service had still not run when measuring ended: the latency
    /// is then how long it had waited by that time, and the true one is at
    /// least that (a right-censored observation). Such an activation is
    /// `missed` too.
    pub censored: bool,
    /// Time from the stage before to this one, by [`Stage::index`]; `None`
    /// where the stage does not belong to the line or was not seen.
    pub steps: [Option<Nanos>; STAGES.len()],
}

impl Activation {
    /// From `expiry` to the last stage seen: the sum of all steps.
    pub fn latency(&self) -> Nanos {
        self.steps
            .iter()
            .flatten()
            .fold(Nanos::ZERO, |sum, &step| sum + step)
    }

    /// From `expiry` to `stage`, or `None` where that stage was not seen.
    pub fn until(&self, stage: Stage) -> Option<Nanos> {
        self.steps[stage.index()]?;
        Some(
            self.steps[..=stage.index()]
                .iter()
                .flatten()
                .fold(Nanos::ZERO, |sum, &step| sum + step),
        )
    }

    /// The latency of `service` in this activation, if it passed it.
    pub fn latency_of(&self, service: Service) -> Option<Nanos> {
        self.until(service.last_stage())
    }
}

/// Many activations, column by column, as they are stored and scanned.
///
/// All columns have the same length.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The line of each activation.
    pub line: Vec<LineId>,
    /// Sequence numbers.
    pub seq: Vec<u64>,
    /// Programmed times, `CLOCK_MONOTONIC` ns.
    pub expiry_ns: Vec<u64>,
    /// Whether each was missed.
    pub missed: Vec<bool>,
    /// Whether each was still waiting at the end; see [`Activation::censored`].
    pub censored: Vec<bool>,
    /// Steps by [`Stage::index`], ns; [`Batch::ABSENT`] where there is none. A
    /// column that no activation of the batch has is empty.
    pub step_ns: [Vec<u64>; STAGES.len()],
}

impl Batch {
    /// Stands for a stage that was not seen.
    pub const ABSENT: u64 = u64::MAX;

    /// How many activations there are.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Appends one activation.
    pub fn push(&mut self, activation: &Activation) {
        let rows = self.len();
        self.line.push(activation.line);
        self.seq.push(activation.seq);
        self.expiry_ns.push(activation.expiry.ns());
        self.missed.push(activation.missed);
        self.censored.push(activation.censored);
        for (column, step) in self.step_ns.iter_mut().zip(&activation.steps) {
            match step {
                Some(step) => {
                    column.resize(rows, Self::ABSENT);
                    column.push(step.ns());
                }
                None if column.is_empty() => {}
                None => column.push(Self::ABSENT),
            }
        }
    }

    /// The activation in row `row`.
    ///
    /// # Panics
    /// When `row` is not below [`Batch::len`].
    pub fn get(&self, row: usize) -> Activation {
        let mut steps = [None; STAGES.len()];
        for (step, column) in steps.iter_mut().zip(&self.step_ns) {
            *step = match column.get(row) {
                None | Some(&Self::ABSENT) => None,
                Some(&ns) => Some(Nanos::from_ns(ns)),
            };
        }
        Activation {
            line: self.line[row],
            seq: self.seq[row],
            expiry: Nanos::from_ns(self.expiry_ns[row]),
            missed: self.missed[row],
            censored: self.censored[row],
            steps,
        }
    }

    /// Every activation, in order.
    pub fn iter(&self) -> impl Iterator<Item = Activation> + '_ {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.line.clear();
        self.seq.clear();
        self.expiry_ns.clear();
        self.missed.clear();
        self.censored.clear();
        self.step_ns.iter_mut().for_each(Vec::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, proptest};

    fn activation(seq: u64, steps: &[(Stage, u64)]) -> Activation {
        let mut activation = Activation {
            line: LineId(1),
            seq,
            expiry: Nanos::from_us(seq),
            missed: false,
            censored: false,
            steps: [None; STAGES.len()],
        };
        for &(stage, ns) in steps {
            activation.steps[stage.index()] = Some(Nanos::from_ns(ns));
        }
        activation
    }

    #[test]
    fn latencies_are_sums_of_steps() {
        let activation = activation(0, &[(Stage::Irq, 5), (Stage::Waking, 3), (Stage::User, 2)]);

        assert_eq!(activation.latency(), Nanos::from_ns(10));
        assert_eq!(activation.until(Stage::Waking), Some(Nanos::from_ns(8)));
        assert_eq!(activation.until(Stage::Softirq), None);
        assert_eq!(activation.latency_of(Service::Irq), Some(Nanos::from_ns(5)));
    }

    proptest! {
        #[test]
        fn a_batch_gives_back_what_was_pushed(rows in proptest::collection::vec(any::<[Option<u32>; STAGES.len()]>(), 0..20)) {
            let pushed: Vec<Activation> = rows
                .iter()
                .zip(0..)
                .map(|(row, seq)| Activation {
                    missed: seq % 3 != 0,
                    censored: seq % 3 == 1,
                    steps: row.map(|ns| ns.map(|ns| Nanos::from_ns(ns.into()))),
                    ..activation(seq, &[])
                })
                .collect();
            let mut batch = Batch::default();
            pushed.iter().for_each(|one| batch.push(one));
            assert_eq!(batch.iter().collect::<Vec<_>>(), pushed);
        }
    }
}
