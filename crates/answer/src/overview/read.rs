//! Reads the first screen of a recording from its files.

use std::num::NonZeroUsize;

use laggard_model::Manifest;
use laggard_record::Recording;

use super::{Overview, OverviewInput, overview};
use crate::load::{Load, LoadError, Run, have_rates, search};
use crate::qos::{Application, runs};
use crate::show::{self, Measured, RecordingReport};
use crate::why::{EpisodeCauses, EpisodesError};

/// Error of [`read`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverviewError {
    /// The samples cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The late wakeups cannot be read.
    #[error(transparent)]
    Episodes(#[from] EpisodesError),
}

/// Reads a recording on this number of threads: its figures and its first screen, for
/// `application`, otherwise for the application that it was made for, otherwise for the
/// profiles of the catalogue.
///
/// # Errors
/// When it cannot be read.
pub fn read(
    from: &Recording,
    application: Option<&Application>,
    threads: NonZeroUsize,
) -> Result<(RecordingReport, Overview), OverviewError> {
    have_rates(std::slice::from_ref(from))?;
    let (mut measured, load) = examine(from, threads)?;
    let made_for = made_for(from.manifest());
    let application = application.or(made_for.as_ref());
    let lines = load.as_ref().map(Load::lines).unwrap_or_default();
    // The screen shows the causes of one service, and explanations take most of the time.
    let subject = runs(
        application.and_then(|application| application.service),
        lines,
    );
    let service = subject.map(|(service, _)| service);
    let mut late = EpisodeCauses::read_if_any(from, service, &mut measured.shortfalls)?;
    if let Some(causes) = &mut late {
        let groups = measured.fold.groups(&measured.manifest.lines, false);
        causes.late.note_samples(&groups, measured.last);
    }
    let report = show::recording(measured, false);
    let explained = late.as_ref().map(|late| late.explained(None));
    let overview = overview(&OverviewInput {
        report: &report,
        late: explained.as_ref(),
        load: load.as_ref(),
        application,
    });
    Ok((report, overview))
}

/// Counts the samples of a recording and finds the late ones, in one pass.
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

/// Returns the application that a recording was made for, if its figures are valid.
pub fn made_for(manifest: &Manifest) -> Option<Application> {
    let application = manifest.application.as_ref()?;
    Application::try_from(application).ok()
}
