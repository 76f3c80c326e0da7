//! The overview of a recording, from its files.

use std::num::NonZeroUsize;

use laggard_model::Manifest;
use laggard_record::Recording;

use super::{Grounds, Overview, overview};
use crate::load::{Load, LoadError, Run, have_rates, search};
use crate::qos::Application;
use crate::show::{self, Measured, RecordingReport};
use crate::why::{EpisodeCauses, EpisodesError};

/// Why there is no overview.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverviewError {
    /// The recording cannot be answered from.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its late activations cannot be read.
    #[error(transparent)]
    Episodes(#[from] EpisodesError),
}

/// Reads a recording on so many threads: what it shows, and in short what it
/// answers of `asked`, else of the application that it was made for, else of
/// those of the catalogue.
///
/// # Errors
/// When it cannot be read.
pub fn read(
    from: &Recording,
    asked: Option<&Application>,
    threads: NonZeroUsize,
) -> Result<(RecordingReport, Overview), OverviewError> {
    have_rates(std::slice::from_ref(from))?;
    let (mut measured, load) = examine(from, threads)?;
    let made_for = made_for(from.manifest());
    let asked = asked.or(made_for.as_ref());
    let late = EpisodeCauses::read_if_any(from, &mut measured.shortfalls)?;
    let report = show::recording(measured, false);
    let explained = late.as_ref().map(|late| late.explained(None));
    let overview = overview(&Grounds {
        report: &report,
        late: explained.as_ref(),
        load: load.as_ref(),
        asked,
    });
    Ok((report, overview))
}

/// A recording with its activations counted and, unless there are none,
/// searched for late ones: in one pass.
fn examine(from: &Recording, threads: NonZeroUsize) -> Result<(Measured, Option<Load>), LoadError> {
    let (searched, fold) = search(from, threads);
    let measured = Measured {
        path: from.dir().display().to_string(),
        manifest: from.manifest().clone(),
        shortfalls: searched.shortfalls.clone(),
        fold,
        last: searched.last,
    };
    match Run::new(from, searched) {
        Ok(run) => Ok((measured, Load::of(vec![run]).pop())),
        Err(LoadError::Empty(_)) => Ok((measured, None)),
        Err(err) => Err(err),
    }
}

/// The application that a recording was made for. Of one that no reader can
/// have been asked about, nothing is known.
pub fn made_for(manifest: &Manifest) -> Option<Application> {
    let asked = manifest.application.as_ref()?;
    Application::try_from(asked).ok()
}
