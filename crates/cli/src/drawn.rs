//! Data of figures and of the report page.

use laggard_answer::course::courses;
use laggard_answer::overview::{Overview, OverviewInput, made_for, overview};
use laggard_answer::qos::Application;
use laggard_answer::show::{By, RecordingReport, measured, recording};
use laggard_answer::why::{Explained, RecordedEpisodes};
use laggard_answer::{Load, Run};
use laggard_record::Recording;
use laggard_view::page::{Charts, charts};

use crate::ask;

/// Data of the report page for one recording.
#[derive(Debug)]
pub(crate) struct RecordingPage {
    pub(crate) report: RecordingReport,
    pub(crate) charts: Charts,
    /// `None` without a wakeup.
    pub(crate) run: Option<Run>,
    pub(crate) overview: Overview,
}

/// Reads a recording's figures, the data of the HTML report, and the answers; if `application` is
/// given, only the answers for it.
pub(crate) fn drawn(
    from: &Recording,
    application: Option<&Application>,
) -> anyhow::Result<RecordingPage> {
    let mut measured = measured(from, By::Service, ask::threads())?;
    let mut late = RecordedEpisodes::read_if_any(from, |_| true, &mut measured.shortfalls)?;
    if let Some(late) = &mut late {
        let groups = measured.fold.groups(&measured.manifest.lines, false);
        late.note_samples(&groups, measured.last);
    }
    let by_cpu = recording(measured.clone(), true);
    let report = recording(measured.clone(), false);
    let explained = late.as_ref().map(|late| Explained::new(late, None));
    let blamed = explained.as_ref().map(Explained::blamed);
    let (courses, run) = courses(from, &measured, &blamed.unwrap_or_default(), ask::threads())?;
    let made_for = made_for(from.manifest());
    let load = Load::of(run.clone().into_iter().collect()).pop();
    let overview = overview(&OverviewInput {
        report: &report,
        late: explained.as_ref(),
        load: load.as_ref(),
        application: application.or(made_for.as_ref()),
    });
    let charts = charts(&report, by_cpu, courses, explained.as_ref(), &overview);
    Ok(RecordingPage {
        report,
        charts,
        run,
        overview,
    })
}
