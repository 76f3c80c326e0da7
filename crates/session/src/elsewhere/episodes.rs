//! No evidence: what is late is counted, and not explained.

use laggard_measure::Probe;
use laggard_model::{Batch, Caveat, Episode, Nanos, ProgramCost};
use laggard_record::Folder;

use crate::{EpisodesChoice, Plan, SessionError};

/// There is none.
#[derive(Debug)]
pub(crate) enum EpisodeWatch {}

impl EpisodeWatch {
    /// Nothing to watch with.
    ///
    /// # Errors
    /// When it was asked for by name.
    pub(crate) fn start(
        plan: &Plan,
        _: &dyn Probe,
    ) -> Result<(Option<Self>, Vec<Caveat>), SessionError> {
        match plan.episodes {
            EpisodesChoice::On => Err(SessionError::NoEpisodes),
            EpisodesChoice::Auto | EpisodesChoice::Off if plan.handlers => {
                Err(SessionError::NoEpisodes)
            }
            EpisodesChoice::Auto | EpisodesChoice::Off => Ok((None, Vec::new())),
        }
    }

    pub(crate) const fn record_into(&mut self, _: &Folder) -> Result<(), SessionError> {
        match *self {}
    }

    pub(crate) const fn observe(
        &mut self,
        _: &Batch,
        _: Nanos,
    ) -> Result<Vec<Episode>, SessionError> {
        match *self {}
    }

    pub(crate) const fn cost(&self) -> Vec<ProgramCost> {
        match *self {}
    }

    pub(crate) const fn finish(self) -> Result<(), SessionError> {
        match self {}
    }
}
