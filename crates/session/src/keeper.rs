//! The recording that a run writes, from its start or from a later moment.

use std::sync::Arc;

use laggard_model::{Account, Batch, Manifest, Nanos, OwnCost};
use laggard_record::{Destination, Recorder, WriteError};

use crate::SessionError;
use crate::load_ended::LoadEnded;
use crate::writer::{self, Writer};

/// A recording that is being written.
pub(crate) struct Keeper {
    place: Destination,
    writer: Writer,
    start: Nanos,
    /// What belongs to the time before the recording.
    before: OwnCost,
}

/// What is only known when measuring has ended.
pub(crate) struct Completion {
    pub(crate) end_ns: Nanos,
    pub(crate) accounts: Vec<Account>,
    /// The rest of what the manifest says at last.
    pub(crate) manifest: Manifest,
}

impl Keeper {
    /// Has `recorder` write what comes from `start` on.
    pub(crate) fn start(
        place: Destination,
        mut recorder: Recorder,
        start: Nanos,
        before: OwnCost,
    ) -> Result<Self, SessionError> {
        recorder.update(|manifest| manifest.clock.start_ns = start);
        Ok(Self {
            place,
            writer: Writer::start(recorder)
                .map_err(|source| SessionError::Thread { what: "", source })?,
            start,
            before,
        })
    }

    pub(crate) const fn place(&self) -> &Destination {
        &self.place
    }

    /// Has a batch, and what became of each line's plan, written; see
    /// [`Writer::keep`].
    pub(crate) fn keep(&mut self, batch: Arc<Batch>, accounts: Vec<Account>, now: Nanos) -> bool {
        self.writer.keep(from(batch, self.start), accounts, now)
    }

    /// See [`Writer::note_load`].
    pub(crate) fn note_load(&mut self, ended: LoadEnded) {
        self.writer.note_load(ended);
    }

    /// How many activations were dropped so far because the disk is slow.
    pub(crate) const fn dropped(&self) -> u64 {
        self.writer.dropped()
    }

    /// Waits until all is written. The recorder's last manifest is not, yet. `cost`
    /// returns the overhead until then.
    pub(crate) fn finish(
        self,
        outcome: Completion,
        cost: impl FnOnce() -> OwnCost,
    ) -> (Recorder, Result<(), WriteError>) {
        let (mut recorder, result) = self.writer.finish();
        writer::account(&mut recorder, outcome.accounts);
        recorder.update(|manifest| {
            manifest.clock.end_ns = Some(outcome.end_ns);
            manifest.cost = cost().since(&self.before);
            manifest.load = outcome.manifest.load;
            manifest.caveats = outcome.manifest.caveats;
        });
        (recorder, result)
    }
}

/// The activations of `batch` that were due at `start` or later.
fn from(batch: Arc<Batch>, start: Nanos) -> Arc<Batch> {
    if batch.expiry_ns.iter().all(|&expiry| expiry >= start.ns()) {
        return batch;
    }
    let mut rest = Batch::default();
    batch
        .iter()
        .filter(|activation| activation.expiry >= start)
        .for_each(|activation| rest.push(&activation));
    Arc::new(rest)
}

#[cfg(test)]
mod tests {
    use laggard_model::{Activation, LineId, STAGES};

    use super::*;

    #[test]
    fn what_was_due_before_a_recording_began_is_not_in_it() {
        let mut batch = Batch::default();
        for seq in 0..5 {
            batch.push(&Activation {
                line: LineId(0),
                seq,
                expiry: Nanos::from_ms(seq),
                missed: false,
                censored: false,
                steps: [None; STAGES.len()],
            });
        }

        let rest = from(Arc::new(batch), Nanos::from_ms(3));

        assert_eq!(rest.seq, [3, 4]);
    }
}
