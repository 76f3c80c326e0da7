//! Who watches a session: a progress bar, a live view, an exporter.

use std::path::{Path, PathBuf};

use laggard_model::{Batch, Caveat, Episode, Losses, Nanos, OwnCost};

use crate::{SessionError, WatchError};

/// What has come since the last look at the probe.
pub struct News<'a> {
    /// Activations, line by line in order.
    pub batch: &'a Batch,
    /// Late ones with their evidence, where there is any. Numbers are those of
    /// the recording; 0 where there is none.
    pub late: &'a [Episode],
    /// When measuring began, `CLOCK_MONOTONIC`.
    pub start: Nanos,
    /// The time of this look, by the same clock.
    pub now: Nanos,
    /// What was lost so far.
    pub losses: Losses,
    /// What measuring cost so far. Reading it takes some system calls.
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

/// What is only known when measuring has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// Reasons to doubt: those from before measuring, then what was found
    /// meanwhile.
    pub caveats: Vec<Caveat>,
    /// All that was lost since measuring began.
    pub losses: Losses,
    /// All that measuring cost.
    pub cost: OwnCost,
}

/// What a watcher wants.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Next {
    /// That measuring goes on.
    GoOn,
    /// That measuring ends.
    End,
    /// That a recording in this folder, which must not exist, begins now. Where
    /// one is being made already, that goes on instead.
    Record(PathBuf),
}

/// Something that watches a session.
///
/// All calls come on the thread that collects, at normal priority. While one
/// lasts nothing is collected: a watcher that waits for anybody (a terminal, a
/// network) does that on a thread of its own.
pub trait Watcher {
    /// Measuring has begun, at `start`, and the load works.
    fn begun(&mut self, _start: Nanos) {}

    /// Takes in what has come, about five times a second; and what is left
    /// when measuring has ended.
    ///
    /// # Errors
    /// When it cannot go on; measuring then ends, and what was seen is kept.
    fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError>;

    /// Hears whether a recording that was wished for has begun, and where.
    fn recording(&mut self, _begun: Result<&Path, &SessionError>) {}

    /// Is given something to tell the person.
    fn say(&mut self, _text: &str) {}

    /// Measuring has ended, and so has the load: what a recording says of itself
    /// at last, a watcher is told too. Nothing comes after it.
    fn end(&mut self, _ending: &Ending) {}
}

/// All who watch a session, as one.
pub(crate) struct Watchers<'a, 'b>(pub(crate) &'a mut [&'b mut dyn Watcher]);

impl Watchers<'_, '_> {
    pub(crate) fn begun(&mut self, start: Nanos) {
        self.0.iter_mut().for_each(|one| one.begun(start));
    }

    /// Shows everybody the news, and returns what is wanted: an end rather than
    /// a recording, and the first recording of several.
    pub(crate) fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError> {
        let mut all = Ok(Next::GoOn);
        for one in self.0.iter_mut() {
            all = match (all, one.observe(news)) {
                (Err(err), _) | (Ok(_), Err(err)) => Err(err),
                (Ok(Next::End), Ok(_)) | (Ok(_), Ok(Next::End)) => Ok(Next::End),
                (Ok(Next::GoOn), Ok(next)) => Ok(next),
                (Ok(next @ Next::Record(_)), Ok(Next::GoOn | Next::Record(_))) => Ok(next),
            };
        }
        all
    }

    pub(crate) fn recording(&mut self, begun: Result<&Path, &SessionError>) {
        self.0.iter_mut().for_each(|one| one.recording(begun));
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.0.iter_mut().for_each(|one| one.say(text));
    }

    pub(crate) fn end(&mut self, ending: &Ending) {
        self.0.iter_mut().for_each(|one| one.end(ending));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wants the same at every look, and counts them.
    struct Wants(Result<Next, &'static str>, u32);

    impl Watcher for Wants {
        fn observe(&mut self, _news: &News<'_>) -> Result<Next, WatchError> {
            self.1 += 1;
            self.0.clone().map_err(Into::into)
        }
    }

    fn all(wanted: &[Result<Next, &'static str>]) -> Result<Next, String> {
        let batch = Batch::default();
        let news = News {
            batch: &batch,
            late: &[],
            start: Nanos::ZERO,
            now: Nanos::ZERO,
            losses: Losses::default(),
            cost: &OwnCost::default,
        };
        let mut each: Vec<Wants> = wanted.iter().map(|one| Wants(one.clone(), 0)).collect();
        let mut watchers: Vec<&mut dyn Watcher> = Vec::new();
        for one in &mut each {
            watchers.push(one);
        }
        let next = Watchers(&mut watchers).observe(&news);
        assert!(each.iter().all(|one| one.1 == 1), "everybody is shown all");
        next.map_err(|err| err.to_string())
    }

    #[test]
    fn of_several_watchers_one_can_end_it_and_the_first_recording_counts() {
        let record = |name: &str| Ok(Next::Record(name.into()));

        assert_eq!(all(&[]), Ok(Next::GoOn));
        assert_eq!(
            all(&[Ok(Next::GoOn), record("a"), record("b")]),
            Ok(Next::Record("a".into()))
        );
        assert_eq!(all(&[record("a"), Ok(Next::End)]), Ok(Next::End));
        assert_eq!(all(&[Ok(Next::End), Ok(Next::GoOn)]), Ok(Next::End));
        assert_eq!(
            all(&[Ok(Next::End), Err("first"), Err("second")]),
            Err("first".into())
        );
    }
}
