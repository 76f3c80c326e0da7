//! Activations: timer expiries and their consequences.

use std::ops::Range;

use crate::{LineId, Nanos, STAGES, Service, Stage};

/// Timer expiry on a CPU, and the stages that follow it.
///
/// Identified by its line and sequence number. The stages are stored as the time since
/// the previous stage (the first: since `expiry`), so that the parts add up to the
/// latency exactly.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Activation {
    /// Which stream it belongs to.
    pub line: LineId,
    /// Number in that stream; gaps are expiries that were lost.
    pub seq: u64,
    /// The programmed time, `CLOCK_MONOTONIC`.
    pub expiry: Nanos,
    /// Whether the service was still busy with an earlier expiry when this one passed.
    /// Then only the last stage is set: the time when the service next ran, so the
    /// latency is the latency of a queued request.
    pub missed: bool,
    /// Whether the service had still not run when the measurement ended. The latency is
    /// then the wait until that time, and the true latency is at least that (a
    /// right-censored observation). Such an activation is `missed` too.
    pub censored: bool,
    /// Time from the previous stage to this one, by [`Stage::index`]; `None` if the
    /// stage does not belong to the line or was not seen.
    pub steps: [Option<Nanos>; STAGES.len()],
}

impl Activation {
    /// Returns an activation that was neither missed nor censored.
    #[must_use]
    pub const fn new(
        line: LineId,
        seq: u64,
        expiry: Nanos,
        steps: [Option<Nanos>; STAGES.len()],
    ) -> Self {
        Self {
            line,
            seq,
            expiry,
            missed: false,
            censored: false,
            steps,
        }
    }

    /// Returns the time from `expiry` to the last stage: the sum of all steps.
    pub fn latency(&self) -> Nanos {
        self.steps
            .iter()
            .flatten()
            .fold(Nanos::ZERO, |sum, &step| sum + step)
    }

    /// Returns the time from `expiry` to `stage`, or `None` if that stage was not seen.
    pub fn until(&self, stage: Stage) -> Option<Nanos> {
        self.steps[stage.index()]?;
        Some(
            self.steps[..=stage.index()]
                .iter()
                .flatten()
                .fold(Nanos::ZERO, |sum, &step| sum + step),
        )
    }

    /// Returns the latency of `service` in this activation, if it passed it.
    pub fn latency_of(&self, service: Service) -> Option<Nanos> {
        self.until(service.last_stage())
    }
}

/// Activations in columns, as they are stored and scanned.
///
/// All columns have the same length.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Line of each activation.
    pub line: Vec<LineId>,
    /// Sequence numbers.
    pub seq: Vec<u64>,
    /// Programmed times, `CLOCK_MONOTONIC` ns.
    pub expiry_ns: Vec<u64>,
    /// Whether each was missed.
    pub missed: Vec<bool>,
    /// Whether each was still waiting at the end; see [`Activation::censored`].
    pub censored: Vec<bool>,
    /// Steps by [`Stage::index`], ns; [`Batch::ABSENT`] for a missing step. A column
    /// without any step is empty.
    pub step_ns: [Vec<u64>; STAGES.len()],
}

impl Batch {
    /// Marks a stage that was not seen.
    pub const ABSENT: u64 = u64::MAX;

    /// Returns the number of activations.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Returns whether it is empty.
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

    /// Appends rows of another batch.
    ///
    /// # Panics
    /// If a row is not below [`Batch::len`] of `other`.
    pub fn extend(&mut self, other: &Self, rows: Range<usize>) {
        let before = self.len();
        self.line.extend_from_slice(&other.line[rows.clone()]);
        self.seq.extend_from_slice(&other.seq[rows.clone()]);
        self.expiry_ns
            .extend_from_slice(&other.expiry_ns[rows.clone()]);
        self.missed.extend_from_slice(&other.missed[rows.clone()]);
        self.censored
            .extend_from_slice(&other.censored[rows.clone()]);
        for (column, steps) in self.step_ns.iter_mut().zip(&other.step_ns) {
            let steps = steps.get(rows.clone()).unwrap_or_default();
            if steps.iter().any(|&ns| ns != Self::ABSENT) {
                column.resize(before, Self::ABSENT);
                column.extend_from_slice(steps);
            } else if !column.is_empty() {
                column.resize(before + rows.len(), Self::ABSENT);
            }
        }
    }

    /// Returns the activation in row `row`.
    ///
    /// # Panics
    /// If `row` is not below [`Batch::len`].
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

    /// Returns every activation, in order.
    pub fn iter(&self) -> impl Iterator<Item = Activation> + '_ {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Removes all rows and keeps the memory.
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
        let mut activation =
            Activation::new(LineId(1), seq, Nanos::from_us(seq), [None; STAGES.len()]);
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
        fn batch_returns_the_pushed_activations(rows in proptest::collection::vec(any::<[Option<u32>; STAGES.len()]>(), 0..20)) {
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
            pushed.iter().for_each(|activation| batch.push(activation));
            assert_eq!(batch.iter().collect::<Vec<_>>(), pushed);

            let half = pushed.len() / 2;
            let mut parts = Batch::default();
            parts.extend(&batch, 0..half);
            parts.extend(&batch, half..pushed.len());
            assert_eq!(parts.iter().collect::<Vec<_>>(), pushed);
            assert_eq!(parts.step_ns, batch.step_ns);
        }
    }
}
