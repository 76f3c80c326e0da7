//! Who watches a run: a progress bar, or a live view.

use std::path::PathBuf;
use std::time::Duration;

use laggard_measure::Probe;
use laggard_model::{Batch, Episode, Losses, Nanos, OwnCost};

/// How long to wait between looks at the probe.
pub(crate) const POLL: Duration = Duration::from_millis(200);

/// What has come since the last look at the probe.
pub(crate) struct News<'a> {
    /// Activations, line by line in order.
    pub(crate) batch: &'a Batch,
    /// Late ones with their evidence, where there is any.
    pub(crate) late: &'a [Episode],
    /// When measuring began.
    pub(crate) start: Nanos,
    /// The time of this look.
    pub(crate) now: Nanos,
    /// What was lost so far.
    pub(crate) losses: Losses,
    /// What measuring cost so far. Reading it takes some system calls.
    pub(crate) cost: &'a dyn Fn() -> OwnCost,
}

/// What an onlooker wants.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Wish {
    /// Nothing.
    GoOn,
    /// That the run ends.
    End,
    /// That a recording in this folder begins now.
    Record(PathBuf),
}

/// Somebody who watches a run, on the thread that collects.
pub(crate) trait Onlooker {
    /// Waits, at most for `most`, for more activations to come.
    fn wait(&mut self, probe: &mut dyn Probe, most: Duration) -> anyhow::Result<()> {
        probe.pause(POLL.min(most));
        Ok(())
    }

    /// Takes in what has come.
    fn observe(&mut self, news: &News<'_>) -> anyhow::Result<Wish>;

    /// Hears whether the recording it wished for has begun.
    fn recording(&mut self, _begun: Result<PathBuf, String>) {}

    /// Has something to tell the person.
    fn say(&mut self, text: &str);

    /// Leaves the terminal as it was: measuring has ended.
    fn end(&mut self);
}
