//! Recording that a run writes, from its start or from a later time.

use std::sync::Arc;

use laggard_model::{Account, Batch, Manifest, Nanos, OwnCost};
use laggard_record::{Destination, Recorder, WriteError};

use crate::SessionError;
use crate::load_ended::LoadEnded;
use crate::writer::{self, Writer};

/// Recording that is being written.
pub(crate) struct Keeper {
    place: Destination,
    writer: Writer,
    start: Nanos,
    /// Overhead before the recording.
    before: OwnCost,
}

/// Data that are known only at the end of the measurement.
pub(crate) struct Completion {
    pub(crate) end_ns: Nanos,
    pub(crate) accounts: Vec<Account>,
    /// Manifest with the rest of its final contents.
    pub(crate) manifest: Manifest,
}

impl Keeper {
    /// Starts to write activations from `start` with `recorder`.
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

    /// Queues a batch, and the account of each line's plan, for writing; see [`Writer::keep`].
    pub(crate) fn keep(&mut self, batch: Arc<Batch>, accounts: Vec<Account>, now: Nanos) -> bool {
        self.writer.keep(from(batch, self.start), accounts, now)
    }

    /// Calls [`Writer::note_load`].
    pub(crate) fn note_load(&mut self, ended: LoadEnded) {
        self.writer.note_load(ended);
    }

    /// Returns the number of activations dropped so far because the disk is slow.
    pub(crate) const fn dropped(&self) -> u64 {
        self.writer.dropped()
    }

    /// Waits until everything is written, except the recorder's final manifest. `cost` returns
    /// the overhead until then.
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

/// Returns the activations of `batch` that were due at `start` or later.
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
    fn recording_excludes_expiries_before_its_start() {
        let mut batch = Batch::default();
        for seq in 0..5 {
            batch.push(&Activation::new(
                LineId(0),
                seq,
                Nanos::from_ms(seq),
                [None; STAGES.len()],
            ));
        }

        let rest = from(Arc::new(batch), Nanos::from_ms(3));

        assert_eq!(rest.seq, [3, 4]);
    }
}
