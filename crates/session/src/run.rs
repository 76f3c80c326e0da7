//! One run, from the first activation to the end of the measurement.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use laggard_measure::Probe;
use laggard_model::{
    Backend, Batch, Caveat, CaveatKind, LossReason, Manifest, Nanos, OwnCost, ProgramCost, State,
};
use laggard_record::{Access, Destination, Recorder};

use crate::beginning;
use crate::episodes::EpisodeWatch;
use crate::keeper::{Completion, Keeper};
use crate::load::{LaunchError, Meanwhile};
use crate::watcher::Watchers;
use crate::{Ending, News, Next, SessionError};

/// Interval of the passes over the probe, whose results watchers receive.
pub const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Pace of a script. A real probe runs in real time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ScriptPace {
    /// As fast as possible.
    #[default]
    AtOnce,
    /// Real time, for a person who watches.
    RealTime,
}

/// Parts of a run.
pub(crate) struct RunParts<'a, 'b, 'c> {
    /// Users that may read the recording.
    pub(crate) access: Access,
    pub(crate) probe: &'a mut dyn Probe,
    /// Manifest of a recording that would start now.
    pub(crate) manifest: Manifest,
    /// Recording, if one is written.
    pub(crate) keeper: Option<Keeper>,
    /// Start of the measurement.
    pub(crate) start: Nanos,
    pub(crate) watch: Option<EpisodeWatch>,
    pub(crate) meanwhile: &'a mut Meanwhile,
    /// True to leave the load to a later session.
    pub(crate) leaves_load: bool,
    pub(crate) watchers: Watchers<'b, 'c>,
    pub(crate) pace: ScriptPace,
    /// Interval of the passes over the probe.
    pub(crate) pass_interval: Duration,
}

/// Reason why the measurement ended.
enum End {
    Complete,
    Interrupted,
    /// The probe gave up for this reason.
    GivenUp(String),
    Failed(SessionError),
    /// The writer failed and has the reason.
    NotWritten,
}

impl RunParts<'_, '_, '_> {
    /// Measures until `duration` is over, the user's command has ended, or `interrupted` is set.
    /// In every case the recording is kept and the probe is ended, and so is the load unless it
    /// is left. Returns the recording, if there is one.
    pub(crate) fn run(
        mut self,
        duration: Option<Nanos>,
        interrupted: &AtomicBool,
    ) -> Result<Option<Destination>, SessionError> {
        let end = self.collect(duration, interrupted);
        let end = self.last_look_at_load(end);
        let end_ns = self.probe.stop();
        let last = match &end {
            End::Failed(_) => Ok(()),
            End::Complete | End::Interrupted | End::GivenUp(_) | End::NotWritten => {
                self.process(end_ns).map(|_| ())
            }
        };
        let stopped = if self.leaves_load {
            Ok(self.meanwhile.leave())
        } else {
            self.meanwhile.stop()
        };
        let (last, watched) = self.end_watch(last, interrupted);
        let mut caveats: Vec<Caveat> = self.probe.caveats();
        let accounts = self.probe.accounts();
        let failed = self.note_load(stopped, &mut caveats);
        self.manifest.load = self.meanwhile.run();
        add_news(&mut self.manifest.caveats, caveats);
        let probe = &*self.probe;
        let cost = || {
            let mut cost = probe.cost();
            cost.programs.extend(watched.iter().cloned());
            cost
        };
        let mut ending = Ending {
            caveats: self.manifest.caveats.clone(),
            losses: self.probe.losses(),
            cost: cost(),
        };
        let written = self.keeper.take().map(|keeper| {
            let place = keeper.place().clone();
            let outcome = Completion {
                end_ns,
                accounts,
                manifest: self.manifest,
            };
            (place, keeper.finish(outcome, cost))
        });
        let (kept, refused) = match written {
            Some((place, (recorder, result))) => {
                let not_written = recorder.manifest().losses.not_written;
                ending.losses.add(LossReason::NotWritten, not_written);
                (Some((place, recorder)), result)
            }
            None => (None, Ok(())),
        };
        self.watchers.end(&ending);
        let end = match (end, refused, last, failed) {
            (end @ End::Failed(_), ..) => end,
            (_, Err(err), ..) => End::Failed(err.into()),
            (_, _, Err(err), _) | (_, _, _, Some(err)) => End::Failed(err),
            (end, Ok(()), Ok(()), None) => end,
        };
        let (state, failure) = state_of(end);
        let (place, closed) = match kept {
            Some((place, recorder)) => (Some(place), close(recorder, state)),
            None => (None, Ok(())),
        };
        match failure {
            Some(err) if place.is_some() => Err(SessionError::RecordingEnded(err.into())),
            Some(err) => Err(SessionError::MeasuringEnded(err.into())),
            None => closed.map(|()| place),
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
                let why = self.probe.failure().unwrap_or_else(|| {
                    "measuring threads left the collector no CPU time, so the measurement stopped".into()
                });
                self.watchers.say(&why);
                return End::GivenUp(why);
            }
            match self.meanwhile.has_ended(now) {
                Ok(false) => {}
                Ok(true) => return End::Complete,
                Err(err) => return End::Failed(err.into()),
            }
            let left = until.map_or(Nanos::MAX, |until| until.saturating_sub(now));
            self.wait(left.into());
            if let Some(end) = self.listen() {
                return end;
            }
        }
    }

    /// Returns how the run ends after the load's latest events.
    fn last_look_at_load(&mut self, end: End) -> End {
        let now = self.probe.now();
        match (self.meanwhile.has_ended(now), end) {
            (_, end @ End::Failed(_)) | (Ok(_), end) => end,
            (Err(err), _) => End::Failed(err.into()),
        }
    }

    /// Waits at most `max` for more activations.
    fn wait(&mut self, max: Duration) {
        let time = self.pass_interval.min(max);
        if self.pace == ScriptPace::RealTime && self.probe.backend() == Backend::Fake {
            sleep(time);
        }
        self.probe.pause(time);
    }

    /// Processes new activations, and returns how the run ends, if it does.
    fn listen(&mut self) -> Option<End> {
        let now = self.probe.now();
        match self.process(now) {
            Err(err) => Some(End::Failed(err)),
            Ok((false, _)) => Some(End::NotWritten),
            Ok((true, Next::GoOn)) => None,
            Ok((true, Next::End)) => Some(End::Interrupted),
            Ok((true, Next::Record(dir))) => {
                let begun = self.record(&dir);
                self.watchers.recording(begun.as_ref().map(|()| &*dir));
                None
            }
        }
    }

    /// Processes new activations at `now`. Returns whether the writer still accepts data, and the
    /// request of the watchers.
    fn process(&mut self, now: Nanos) -> Result<(bool, Next), SessionError> {
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
                if let Some(ended) = self.meanwhile.news() {
                    keeper.note_load(ended);
                }
                let goes_on = keeper.keep(batch.clone(), self.probe.accounts(), now);
                losses.add(LossReason::NotWritten, keeper.dropped());
                goes_on
            }
            None => true,
        };
        let next = self.watchers.observe(&News {
            batch: &batch,
            late: &late,
            start: self.start,
            now,
            losses,
            cost: &|| cost(self.probe, self.watch.as_ref()),
        });
        Ok((goes_on, next.map_err(SessionError::Watcher)?))
    }

    /// Starts to keep activations.
    fn record(&mut self, dir: &Path) -> Result<(), SessionError> {
        if let Some(keeper) = &self.keeper {
            return Err(SessionError::Recording(keeper.place().path().to_owned()));
        }
        let now = self.probe.begin_anew();
        let mut manifest = self.manifest.clone();
        beginning::begin_at(&mut manifest, now);
        manifest.plan.duration_ns = None;
        manifest.load = self.meanwhile.run();
        let before = cost(self.probe, self.watch.as_ref());
        let place = Destination::from(dir);
        let recorder = Recorder::create_for(place.clone(), manifest, self.access)?;
        let folder = recorder.folder().clone();
        self.keeper = Some(Keeper::start(place, recorder, now, before)?);
        if let Some(watch) = &mut self.watch {
            watch.record_into(&folder)?;
        }
        Ok(())
    }

    /// Ends the watch for late wakeups in every case, and returns the overhead of its programs.
    fn end_watch(
        &mut self,
        last: Result<(), SessionError>,
        interrupted: &AtomicBool,
    ) -> (Result<(), SessionError>, Vec<ProgramCost>) {
        let Some(watch) = self.watch.take() else {
            return (last, Vec::new());
        };
        let cost = watch.cost();
        let finished = watch.finish(interrupted);
        (last.and(finished), cost)
    }

    fn note_load(
        &mut self,
        stopped: Result<Vec<Caveat>, LaunchError>,
        caveats: &mut Vec<Caveat>,
    ) -> Option<SessionError> {
        match stopped {
            Ok(about_load) => {
                for caveat in &about_load {
                    self.watchers.say(&caveat.what);
                }
                caveats.extend(about_load);
                None
            }
            Err(err) => Some(err.into()),
        }
    }
}

fn close(recorder: Recorder, state: State) -> Result<(), SessionError> {
    let finished = recorder.finish(state);
    finished.map(|_| ()).map_err(SessionError::Close)
}

/// Returns the overhead of the measurement so far.
fn cost(probe: &dyn Probe, watch: Option<&EpisodeWatch>) -> OwnCost {
    let mut cost = probe.cost();
    if let Some(watch) = watch {
        cost.programs.extend(watch.cost());
    }
    cost
}

fn state_of(end: End) -> (State, Option<SessionError>) {
    match end {
        End::Complete => (State::Complete, None),
        End::Interrupted => (State::Interrupted, None),
        End::GivenUp(error) => (State::Failed { error }, None),
        End::NotWritten => (
            State::Failed {
                error: "the writer ended early".into(),
            },
            None,
        ),
        End::Failed(err) => (
            State::Failed {
                error: err.in_full(),
            },
            Some(err),
        ),
    }
}

/// Adds the probe's warnings. A result of a trial replaces a warning of the same kind from the
/// machine's settings.
fn add_news(caveats: &mut Vec<Caveat>, news: Vec<Caveat>) {
    let is_foretold = |kind| matches!(kind, CaveatKind::MemoryLock | CaveatKind::NotRoot);
    caveats.retain(|old| !is_foretold(old.kind) || news.iter().all(|new| new.kind != old.kind));
    caveats.extend(news);
}
