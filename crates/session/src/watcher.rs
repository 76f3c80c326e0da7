//! Watchers of a session: a progress bar, a live view, an exporter.

use std::path::{Path, PathBuf};

use laggard_model::{Batch, Caveat, Episode, Losses, Nanos, OwnCost};

use crate::{SessionError, WatchError};

/// Data since the last pass over the probe.
pub struct News<'a> {
    /// Activations, line by line in order.
    pub batch: &'a Batch,
    /// Late wakeups with their trace data, if there are any. Numbers come from the recording, or
    /// are 0 without one.
    pub late: &'a [Episode],
    /// Start of the measurement, `CLOCK_MONOTONIC`.
    pub start: Nanos,
    /// Time of this pass by the same clock.
    pub now: Nanos,
    /// Losses so far.
    pub losses: Losses,
    /// Function that returns the overhead so far, which takes some system calls.
    pub cost: &'a dyn Fn() -> OwnCost,
}

impl std::fmt::Debug for News<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("News")
            .field("batch", &self.batch.len())
            .field("late", &self.late.len())
            .field("start", &self.start)
            .field("now", &self.now)
            .field("losses", &self.losses)
            .finish_non_exhaustive()
    }
}

/// Data that are known only at the end of the measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// Warnings: first the ones from before the measurement, then later ones.
    pub caveats: Vec<Caveat>,
    /// All losses since the start of the measurement.
    pub losses: Losses,
    /// Total overhead of the measurement.
    pub cost: OwnCost,
}

/// Request of a watcher.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Next {
    /// Continue the measurement.
    GoOn,
    /// End the measurement.
    End,
    /// Start a recording in this directory, which must not exist. If a recording is already being
    /// made, it continues instead.
    Record(PathBuf),
}

/// Watcher of a session.
///
/// The collecting thread makes all calls, at normal priority. During a call nothing is collected:
/// a watcher that waits (for a terminal, a network) must do so in a separate thread.
pub trait Watcher {
    /// Called when the measurement has started at `start` and the load works.
    fn begun(&mut self, _start: Nanos) {}

    /// Processes new data, about five times a second, and the rest when the measurement has
    /// ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the watcher cannot continue. The measurement then ends, and the
    /// recording is kept.
    fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError>;

    /// Called with the path of a requested recording that has started, or the error.
    fn recording(&mut self, _begun: Result<&Path, &SessionError>) {}

    /// Called with a text for the user.
    fn say(&mut self, _text: &str) {}

    /// Called when the measurement and the load have ended, with the final data of a recording.
    /// It is the last call.
    fn end(&mut self, _ending: &Ending) {}
}

/// All watchers of a session, combined.
pub(crate) struct Watchers<'a, 'b>(pub(crate) &'a mut [&'b mut dyn Watcher]);

impl Watchers<'_, '_> {
    pub(crate) fn begun(&mut self, start: Nanos) {
        self.0.iter_mut().for_each(|watcher| watcher.begun(start));
    }

    /// Passes the data to every watcher and returns their combined request: an end takes
    /// precedence over a recording, and the first of several recordings counts.
    pub(crate) fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError> {
        let mut request = Ok(Next::GoOn);
        for watcher in self.0.iter_mut() {
            request = match (request, watcher.observe(news)) {
                (Err(err), _) | (Ok(_), Err(err)) => Err(err),
                (Ok(Next::End), Ok(_)) | (Ok(_), Ok(Next::End)) => Ok(Next::End),
                (Ok(Next::GoOn), Ok(next)) => Ok(next),
                (Ok(next @ Next::Record(_)), Ok(Next::GoOn | Next::Record(_))) => Ok(next),
            };
        }
        request
    }

    pub(crate) fn recording(&mut self, begun: Result<&Path, &SessionError>) {
        self.0
            .iter_mut()
            .for_each(|watcher| watcher.recording(begun));
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.0.iter_mut().for_each(|watcher| watcher.say(text));
    }

    pub(crate) fn end(&mut self, ending: &Ending) {
        self.0.iter_mut().for_each(|watcher| watcher.end(ending));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Watcher that makes the same request at every call, and counts the calls.
    struct FixedRequest(Result<Next, &'static str>, u32);

    impl Watcher for FixedRequest {
        fn observe(&mut self, _news: &News<'_>) -> Result<Next, WatchError> {
            self.1 += 1;
            self.0.clone().map_err(Into::into)
        }
    }

    fn combined(wanted: &[Result<Next, &'static str>]) -> Result<Next, String> {
        let batch = Batch::default();
        let news = News {
            batch: &batch,
            late: &[],
            start: Nanos::ZERO,
            now: Nanos::ZERO,
            losses: Losses::default(),
            cost: &OwnCost::default,
        };
        let mut each: Vec<FixedRequest> = wanted
            .iter()
            .map(|watcher| FixedRequest(watcher.clone(), 0))
            .collect();
        let mut watchers: Vec<&mut dyn Watcher> = Vec::new();
        for watcher in &mut each {
            watchers.push(watcher);
        }
        let next = Watchers(&mut watchers).observe(&news);
        assert!(
            each.iter().all(|watcher| watcher.1 == 1),
            "every watcher receives every call"
        );
        next.map_err(|err| err.to_string())
    }

    #[test]
    fn any_watcher_can_end_the_session_and_the_first_recording_counts() {
        let record = |name: &str| Ok(Next::Record(name.into()));

        assert_eq!(combined(&[]), Ok(Next::GoOn));
        assert_eq!(
            combined(&[Ok(Next::GoOn), record("a"), record("b")]),
            Ok(Next::Record("a".into()))
        );
        assert_eq!(combined(&[record("a"), Ok(Next::End)]), Ok(Next::End));
        assert_eq!(combined(&[Ok(Next::End), Ok(Next::GoOn)]), Ok(Next::End));
        assert_eq!(
            combined(&[Ok(Next::End), Err("first"), Err("second")]),
            Err("first".into())
        );
    }
}
