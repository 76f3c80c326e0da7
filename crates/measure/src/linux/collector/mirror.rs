//! The softirq's line where a thread's timer descriptor serves it.

use laggard_model::{Activation, Batch, LineId, Nanos, STAGES, Stage};

/// The softirq's line where a thread's timer descriptor serves it: what the
/// thread's activations say of the softirq.
#[derive(Debug)]
pub(crate) struct Mirror {
    id: LineId,
    next_seq: u64,
    last_softirq: Nanos,
    seen: Vec<Activation>,
}

impl Mirror {
    /// Of line `id`, that has seen nothing yet.
    pub(crate) fn new(id: LineId) -> Self {
        Self {
            id,
            next_seq: 0,
            last_softirq: Nanos::ZERO,
            seen: Vec::new(),
        }
    }

    /// An expiry that the thread missed, if the softirq missed it too: it had
    /// then not got to the expiry before. Otherwise it was not asked.
    pub(super) fn miss(&mut self, expiry: Nanos) {
        if let Some(late) = Nanos::between(expiry, self.last_softirq) {
            let mut steps = [None; STAGES.len()];
            steps[Stage::Softirq.index()] = Some(late);
            self.push(expiry, true, steps);
        }
    }

    pub(super) fn serve(&mut self, activation: &Activation) {
        let Some(late) = activation.until(Stage::Softirq) else {
            return;
        };
        self.last_softirq = activation.expiry + late;
        let mut steps = activation.steps;
        steps[Stage::Softirq.index() + 1..].fill(None);
        self.push(activation.expiry, false, steps);
    }

    fn push(&mut self, expiry: Nanos, missed: bool, steps: [Option<Nanos>; STAGES.len()]) {
        self.seen.push(Activation {
            line: self.id,
            seq: self.next_seq,
            expiry,
            missed,
            censored: false,
            steps,
        });
        self.next_seq += 1;
    }

    /// Moves what has been seen to `into`.
    pub(super) fn drain(&mut self, into: &mut Batch) {
        self.seen.drain(..).for_each(|one| into.push(&one));
    }
}
