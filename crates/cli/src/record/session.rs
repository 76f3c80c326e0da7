//! One run: from the first activation to the end of the recording.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use laggard_measure::Probe;
use laggard_model::{Batch, Caveat, CaveatKind, Nanos, ProgramCost, State};
use laggard_record::{Recorder, WriteError};

use super::episodes::EpisodeWatch;
use super::meanwhile::Meanwhile;
use super::progress::Progress;
use super::writer::{Writer, with_unwritten};

/// All that takes part in a run.
pub(super) struct Session<'a> {
    pub(super) probe: &'a mut dyn Probe,
    pub(super) writer: Writer,
    /// When the probe began to measure.
    pub(super) start: Nanos,
    pub(super) watch: Option<EpisodeWatch>,
    pub(super) meanwhile: &'a mut Meanwhile,
    pub(super) progress: Progress,
}

/// Why measuring ended.
enum End {
    Complete,
    Interrupted,
    Failed(anyhow::Error),
    /// The writer says why.
    NotWritten,
}

impl Session<'_> {
    /// Records until `duration` is over, the user's command has ended, or
    /// `interrupted` is set. Whatever happens, what was measured is kept and
    /// the probe and load are ended.
    pub(super) fn run(
        mut self,
        duration: Option<Nanos>,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<()> {
        let start = self.start;
        let mut batch = Batch::default();
        let end = self.collect(start, duration, interrupted);
        let end_ns = self.probe.now();
        self.probe.stop();
        let stopped = self.meanwhile.stop();
        self.progress.end();
        self.probe.drain(&mut batch);
        // Where the disk has refused already, a second refusal says no more.
        if !matches!(end, End::Failed(_) | End::NotWritten) {
            self.keep(batch, end_ns);
        }
        let (last, watched) = self.end_watch();
        let (probe, run) = (&self.probe, self.meanwhile.run());
        let mut caveats: Vec<Caveat> = probe.caveats();
        let (losses, mut cost) = (probe.losses(), probe.cost());
        cost.programs.extend(watched);
        let failed = self.note_load(stopped, &mut caveats);
        let (mut recorder, written) = self.writer.finish();
        recorder.update(|manifest| {
            manifest.clock.end_ns = Some(end_ns);
            manifest.losses = with_unwritten(losses, manifest.losses);
            manifest.cost = cost;
            manifest.load = run;
            add_news(&mut manifest.caveats, caveats);
        });
        let end = match (end, written.and(last), failed) {
            (end @ End::Failed(_), ..) => end,
            (_, Err(err), _) => End::Failed(err.into()),
            (_, _, Some(err)) => End::Failed(err),
            (end, Ok(()), None) => end,
        };
        close(recorder, end)
    }

    fn collect(&mut self, start: Nanos, duration: Option<Nanos>, interrupted: &AtomicBool) -> End {
        let until = duration.map(|duration| start + duration);
        loop {
            let now = self.probe.now();
            if until.is_some_and(|until| now >= until) {
                return End::Complete;
            }
            if interrupted.load(Ordering::Relaxed) {
                return End::Interrupted;
            }
            match self.meanwhile.has_ended() {
                Ok(false) => {}
                Ok(true) => return End::Complete,
                Err(err) => return End::Failed(err),
            }
            let left = until.map_or(Nanos::MAX, |until| until.saturating_sub(now));
            self.probe.pause(self.progress.poll().min(left.into()));
            let mut batch = Batch::default();
            self.probe.drain(&mut batch);
            let now = self.probe.now();
            self.progress.observe(&batch, now.saturating_sub(start));
            if !self.keep(batch, now) {
                return End::NotWritten;
            }
        }
    }

    /// Keeps a batch. Whether what is to be kept is still written.
    fn keep(&mut self, batch: Batch, now: Nanos) -> bool {
        let watched = match &mut self.watch {
            Some(watch) => watch.observe(&batch, now),
            None => true,
        };
        self.writer.keep(batch, self.probe.losses(), now) && watched
    }

    /// Ends the watch for late activations, whatever happened; what its
    /// programs cost.
    fn end_watch(&mut self) -> (Result<(), WriteError>, Vec<ProgramCost>) {
        let Some(watch) = self.watch.take() else {
            return (Ok(()), Vec::new());
        };
        let cost = watch.cost();
        (watch.finish(), cost)
    }

    fn note_load(
        &self,
        stopped: anyhow::Result<Vec<Caveat>>,
        caveats: &mut Vec<Caveat>,
    ) -> Option<anyhow::Error> {
        match stopped {
            Ok(about_load) => {
                for caveat in &about_load {
                    self.progress.say(&caveat.what);
                }
                caveats.extend(about_load);
                None
            }
            Err(err) => Some(err),
        }
    }
}

/// Writes the last manifest; an error that ended the run stays the error.
fn close(recorder: Recorder, end: End) -> anyhow::Result<()> {
    let (state, failure) = match end {
        End::Complete => (State::Complete, None),
        End::Interrupted => (State::Interrupted, None),
        End::NotWritten => (
            State::Failed {
                error: "the writer ended early".into(),
            },
            None,
        ),
        End::Failed(err) => (
            State::Failed {
                error: format!("{err:#}"),
            },
            Some(err),
        ),
    };
    let finished = recorder.finish(state);
    match failure {
        Some(err) => Err(err.context("the recording ended early")),
        None => finished.map(|_| ()).context("close the recording"),
    }
}

/// Adds the probe's caveats; what it found when it tried replaces what the
/// machine's settings foretold of the same.
fn add_news(all: &mut Vec<Caveat>, news: Vec<Caveat>) {
    let is_foretold = |kind| matches!(kind, CaveatKind::MemoryLock | CaveatKind::NotRoot);
    all.retain(|old| !is_foretold(old.kind) || news.iter().all(|new| new.kind != old.kind));
    all.extend(news);
}
