//! The recorder on a thread of its own: a slow disk must not keep the
//! collector from the probe's rings.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use laggard_measure::linux;
use laggard_model::{Batch, LossReason, Losses, Nanos};
use laggard_record::{Recorder, WriteError};

/// Rows that may wait for the disk; about 50 MB. More are lost, and counted.
const MOST_WAITING: usize = 500_000;

/// What has come since the last look at the probe.
struct Look {
    batch: Batch,
    losses: Losses,
    now: Nanos,
}

/// A recorder that is written to by a thread.
pub(super) struct Writer {
    looks: Sender<Look>,
    thread: JoinHandle<(Recorder, Result<(), WriteError>)>,
    waiting: Arc<AtomicUsize>,
    lost: u64,
}

impl Writer {
    /// Hands the recorder to a thread.
    pub(super) fn start(recorder: Recorder) -> io::Result<Self> {
        let (looks, taken) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let shared = waiting.clone();
        let thread = std::thread::Builder::new()
            .name("laggard/writer".into())
            .spawn(move || write(recorder, &taken, &shared))?;
        Ok(Self {
            looks,
            thread,
            waiting,
            lost: 0,
        })
    }

    /// Has `batch` and the probe's losses so far written. Returns whether the
    /// thread still writes; [`Writer::finish`] says why not.
    pub(super) fn keep(&mut self, batch: Batch, losses: Losses, now: Nanos) -> bool {
        let rows = batch.len();
        if self.waiting.load(Ordering::Relaxed) + rows > MOST_WAITING {
            self.lost += rows as u64;
            return !self.thread.is_finished();
        }
        self.waiting.fetch_add(rows, Ordering::Relaxed);
        self.looks.send(Look { batch, losses, now }).is_ok()
    }

    /// Waits until all is written, or has failed.
    pub(super) fn finish(self) -> (Recorder, Result<(), WriteError>) {
        drop(self.looks);
        match self.thread.join() {
            Ok((mut recorder, result)) => {
                recorder.update(|manifest| {
                    manifest.losses.add(LossReason::NotWritten, self.lost);
                });
                (recorder, result)
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn write(
    mut recorder: Recorder,
    looks: &Receiver<Look>,
    waiting: &AtomicUsize,
) -> (Recorder, Result<(), WriteError>) {
    linux::take_usual_share();
    while let Ok(Look { batch, losses, now }) = looks.recv() {
        waiting.fetch_sub(batch.len(), Ordering::Relaxed);
        let written = recorder.append(&batch).and_then(|()| {
            recorder.update(|manifest| manifest.losses = with_unwritten(losses, manifest.losses));
            recorder.flush(now)
        });
        if written.is_err() {
            return (recorder, written);
        }
    }
    (recorder, Ok(()))
}

/// The probe's losses with the recorder's own.
pub(super) const fn with_unwritten(probe: Losses, recorder: Losses) -> Losses {
    Losses {
        not_written: recorder.not_written,
        ..probe
    }
}
