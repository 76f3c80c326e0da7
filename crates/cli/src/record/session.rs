//! One run: from the first activation to the end of measuring.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use laggard_measure::Probe;
use laggard_model::{
    Batch, Caveat, CaveatKind, LossReason, Manifest, Nanos, OwnCost, ProgramCost, State,
};
use laggard_record::Recorder;

use super::beginning;
use super::episodes::EpisodeWatch;
use super::keeper::{Keeper, Outcome};
use super::meanwhile::Meanwhile;
use super::onlooker::{News, Onlooker, Wish};

/// All that takes part in a run.
pub(super) struct Session<'a> {
    pub(super) probe: &'a mut dyn Probe,
    /// What a recording that begins now would say of itself.
    pub(super) manifest: Manifest,
    /// The recording, if one is written.
    pub(super) keeper: Option<Keeper>,
    /// When the probe began to measure.
    pub(super) start: Nanos,
    pub(super) watch: Option<EpisodeWatch>,
    pub(super) meanwhile: &'a mut Meanwhile,
    pub(super) onlooker: &'a mut dyn Onlooker,
}

/// Why measuring ended.
enum End {
    Complete,
    Interrupted,
    /// By the probe: it took too much of the machine.
    GivenUp,
    Failed(anyhow::Error),
    /// The writer says why.
    NotWritten,
}

impl Session<'_> {
    /// Measures until `duration` is over, the user's command has ended, or
    /// `interrupted` is set. Whatever happens, what was to be kept is kept and
    /// the probe and load are ended. Returns the recording, if there is one.
    pub(super) fn run(
        mut self,
        duration: Option<Nanos>,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Option<PathBuf>> {
        let end = self.collect(duration, interrupted);
        let end_ns = self.probe.stop();
        let last = match &end {
            End::Failed(_) => Ok(()),
            _ => self.look(end_ns).map(|_| ()),
        };
        self.onlooker.end();
        let stopped = self.meanwhile.stop();
        let (last, watched) = self.end_watch(last);
        let mut caveats: Vec<Caveat> = self.probe.caveats();
        let (accounts, mut cost) = (self.probe.accounts(), self.probe.cost());
        cost.programs.extend(watched);
        let failed = self.note_load(stopped, &mut caveats);
        self.manifest.load = self.meanwhile.run();
        add_news(&mut self.manifest.caveats, caveats);
        let written = self.keeper.take().map(|keeper| {
            let dir = keeper.dir().to_owned();
            let outcome = Outcome {
                end_ns,
                accounts,
                cost,
                manifest: self.manifest,
            };
            (dir, keeper.finish(outcome))
        });
        let (kept, refused) = match written {
            Some((dir, (recorder, result))) => (Some((dir, recorder)), result),
            None => (None, Ok(())),
        };
        let end = match (end, refused, last, failed) {
            (end @ End::Failed(_), ..) => end,
            (_, Err(err), ..) => End::Failed(err.into()),
            (_, _, Err(err), _) | (_, _, _, Some(err)) => End::Failed(err),
            (end, Ok(()), Ok(()), None) => end,
        };
        let (state, failure) = state_of(end);
        let (dir, closed) = match kept {
            Some((dir, recorder)) => {
                let finished = recorder.finish(state);
                (
                    Some(dir),
                    finished.map(|_| ()).context("close the recording"),
                )
            }
            None => (None, Ok(())),
        };
        match failure {
            Some(err) if dir.is_some() => Err(err.context("the recording ended early")),
            Some(err) => Err(err.context("measuring ended early")),
            None => closed.map(|()| dir),
        }
    }

    fn collect(&mut self, duration: Option<Nanos>, interrupted: &AtomicBool) -> End {
        let until = duration.map(|duration| self.start + duration);
        loop {
            let now = self.probe.now();
            if until.is_some_and(|until| now >= until) {
                return End::Complete;
            }
            if interrupted.load(Ordering::Relaxed) {
                return End::Interrupted;
            }
            if self.probe.has_given_up() {
                self.onlooker
                    .say("measuring took the machine from its own collector, and ended itself");
                return End::GivenUp;
            }
            match self.meanwhile.has_ended() {
                Ok(false) => {}
                Ok(true) => return End::Complete,
                Err(err) => return End::Failed(err),
            }
            let left = until.map_or(Nanos::MAX, |until| until.saturating_sub(now));
            if let Err(err) = self.onlooker.wait(self.probe, left.into()) {
                return End::Failed(err);
            }
            if let Some(end) = self.listen() {
                return end;
            }
        }
    }

    /// Takes in what has come; how the run ends, if it does.
    fn listen(&mut self) -> Option<End> {
        let now = self.probe.now();
        match self.look(now) {
            Err(err) => Some(End::Failed(err)),
            Ok((false, _)) => Some(End::NotWritten),
            Ok((true, Wish::GoOn)) => None,
            Ok((true, Wish::End)) => Some(End::Interrupted),
            Ok((true, Wish::Record(dir))) => {
                let begun = self.record(&dir);
                let begun = begun.map(|()| dir).map_err(|err| format!("{err:#}"));
                self.onlooker.recording(begun);
                None
            }
        }
    }

    /// Takes in what has come, at `now`: whether the writer still takes what
    /// is to be kept, and what the onlooker wants.
    fn look(&mut self, now: Nanos) -> anyhow::Result<(bool, Wish)> {
        let mut batch = Batch::default();
        self.probe.drain(&mut batch);
        let late = match &mut self.watch {
            Some(watch) => watch.observe(&batch, now)?,
            None => Vec::new(),
        };
        let batch = Arc::new(batch);
        let mut losses = self.probe.losses();
        let goes_on = match &mut self.keeper {
            Some(keeper) => {
                let goes_on = keeper.keep(batch.clone(), self.probe.accounts(), now);
                losses.add(LossReason::NotWritten, keeper.dropped());
                goes_on
            }
            None => true,
        };
        let wish = self.onlooker.observe(&News {
            batch: &batch,
            late: &late,
            start: self.start,
            now,
            losses,
            cost: &|| cost(self.probe, self.watch.as_ref()),
        })?;
        Ok((goes_on, wish))
    }

    /// Keeps from now on what comes.
    fn record(&mut self, dir: &Path) -> anyhow::Result<()> {
        let now = self.probe.begin_anew();
        let mut manifest = self.manifest.clone();
        beginning::begin_at(&mut manifest, now);
        manifest.plan.duration_ns = None;
        manifest.load = self.meanwhile.run();
        let before = cost(self.probe, self.watch.as_ref());
        let recorder = Recorder::create(dir, manifest)?;
        self.keeper = Some(Keeper::start(dir, recorder, now, before)?);
        if let Some(watch) = &mut self.watch {
            watch
                .record_into(dir)
                .context("start the thread that writes episodes")?;
        }
        Ok(())
    }

    /// Ends the watch for late activations, whatever happened; what its
    /// programs cost.
    fn end_watch(&mut self, last: anyhow::Result<()>) -> (anyhow::Result<()>, Vec<ProgramCost>) {
        let Some(watch) = self.watch.take() else {
            return (last, Vec::new());
        };
        let cost = watch.cost();
        let finished = watch.finish();
        (last.and(finished.map_err(Into::into)), cost)
    }

    fn note_load(
        &mut self,
        stopped: anyhow::Result<Vec<Caveat>>,
        caveats: &mut Vec<Caveat>,
    ) -> Option<anyhow::Error> {
        match stopped {
            Ok(about_load) => {
                for caveat in &about_load {
                    self.onlooker.say(&caveat.what);
                }
                caveats.extend(about_load);
                None
            }
            Err(err) => Some(err),
        }
    }
}

/// What measuring cost so far.
fn cost(probe: &dyn Probe, watch: Option<&EpisodeWatch>) -> OwnCost {
    let mut cost = probe.cost();
    if let Some(watch) = watch {
        cost.programs.extend(watch.cost());
    }
    cost
}

fn state_of(end: End) -> (State, Option<anyhow::Error>) {
    match end {
        End::Complete => (State::Complete, None),
        End::Interrupted | End::GivenUp => (State::Interrupted, None),
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
    }
}

/// Adds the probe's caveats; what it found when it tried replaces what the
/// machine's settings foretold of the same.
fn add_news(all: &mut Vec<Caveat>, news: Vec<Caveat>) {
    let is_foretold = |kind| matches!(kind, CaveatKind::MemoryLock | CaveatKind::NotRoot);
    all.retain(|old| !is_foretold(old.kind) || news.iter().all(|new| new.kind != old.kind));
    all.extend(news);
}
