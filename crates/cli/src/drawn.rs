//! What pictures and the page are drawn from.

use laggard_answer::Run;
use laggard_answer::course::courses;
use laggard_answer::show::{By, RecordingReport, measured, recording};
use laggard_answer::why::{EpisodesError, Explained, RecordedEpisodes};
use laggard_model::Caveat;
use laggard_record::Recording;
use laggard_view::page::{Charts, charts};

use crate::ask;

/// A recording's figures, and what the page draws of them.
pub(crate) fn drawn(from: &Recording) -> anyhow::Result<(RecordingReport, Charts, Option<Run>)> {
    let mut measured = measured(from, By::Service, ask::threads())?;
    let mut late = match RecordedEpisodes::read(from) {
        Ok(late) => Some(late),
        Err(
            EpisodesError::NotRecorded { shortfalls, .. }
            | EpisodesError::Damaged { shortfalls, .. },
        ) => {
            // Nothing else would say it.
            let missing = shortfalls.iter().map(Caveat::from);
            measured.shortfalls.extend(missing);
            None
        }
        Err(error) => return Err(error.into()),
    };
    let by_cpu = recording(measured.clone(), true);
    let report = recording(measured.clone(), false);
    if let Some(late) = &mut late {
        let rows = report.services.iter();
        late.latest = rows
            .filter_map(|row| Some((row.service, row.route, row.latency.largest_ns?)))
            .collect();
    }
    let explained = late.as_ref().map(|late| Explained::new(late, None));
    let blamed = explained.as_ref().map(Explained::blamed);
    let (courses, run) = courses(from, &measured, &blamed.unwrap_or_default(), ask::threads())?;
    let charts = charts(&report, by_cpu, courses, explained.as_ref());
    Ok((report, charts, run))
}
