//! `laggard report`: recordings for others to look at.

use std::path::Path;

use laggard_answer::course::courses;
use laggard_answer::forecast::Horizon;
use laggard_answer::qos::{buffers, choices};
use laggard_answer::show::{By, RecordingReport, Report, SHOW_SCHEMA, measured, recording};
use laggard_answer::why::{self, EpisodesError, Explained, RecordedEpisodes};
use laggard_answer::{Load, Run, Trust, loads, open, show};
use laggard_model::{Caveat, UsagePattern, printable};
use laggard_record::Recording;
use laggard_view::page::{Charts, PageData};

use crate::args::ReportArgs;
use crate::exit::Exit;
use crate::{ask, file, forecast, pipe, sched};

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<Exit> {
    if !args.markdown {
        laggard_view::page::check()?;
    }
    let mut reports = Vec::new();
    let mut charts = Vec::new();
    let mut runs = Vec::new();
    for recording in &open(&args.recordings)? {
        if args.markdown {
            reports.push(show::report(recording, By::Service, ask::threads())?);
        } else {
            let (report, drawn, run) = drawn(recording)?;
            reports.push(report);
            charts.push(drawn);
            runs.extend(run);
        }
    }
    let is_good = reports.iter().all(|report| report.trust == Trust::Good);
    if args.markdown {
        let text = laggard_view::markdown(&reports);
        match &args.output {
            None => pipe::print(&text)?,
            Some(file) => file::write(file, "report", text.as_bytes())?,
        }
    } else {
        let data = answered(
            args,
            Report {
                schema: SHOW_SCHEMA,
                version: env!("CARGO_PKG_VERSION").into(),
                recordings: reports,
            },
            charts,
            &Load::of(runs),
        )?;
        let file = args.output.as_deref().unwrap_or(Path::new("report.html"));
        let page = laggard_view::page::html(&data)?;
        file::write(file, "report", page.as_bytes())?;
        pipe::print(&format!(
            "Wrote {}; open it in a browser\n",
            printable(&file.display().to_string())
        ))?;
    }
    Ok(if is_good {
        Exit::Ok
    } else {
        Exit::Untrustworthy
    })
}

/// The page's data with what the recordings answer: forecasts, buffers, and
/// the user's task set. One without any activation answers nothing.
fn answered(
    args: &ReportArgs,
    report: Report,
    mut charts: Vec<Charts>,
    seen: &[Load],
) -> anyhow::Result<PageData> {
    let applications = choices(args.app.as_deref())?;
    weigh(&report, &mut charts, seen)?;
    Ok(PageData {
        forecast: match seen.is_empty() {
            true => None,
            false => Some(forecast::forecasts(seen, None, &Horizon::ALL)?),
        },
        buffers: (!seen.is_empty()).then(|| buffers(seen, applications)),
        sched: match &args.tasks {
            Some(file) => sched::answers(file, seen)?,
            None => Vec::new(),
        },
        report,
        charts,
    })
}

/// Adds what the leading causes are worth, as `laggard why` does: of each
/// recording by itself, also where several are of one load.
fn weigh(report: &Report, charts: &mut [Charts], seen: &[Load]) -> anyhow::Result<()> {
    for (recording, drawn) in report.recordings.iter().zip(charts) {
        let Some(causes) = &mut drawn.causes else {
            continue;
        };
        let is_it =
            |one: &&Load| matches!(one.runs.as_slice(), [only] if only.path == recording.path);
        let is_known = |one: &Load| one.runs.iter().any(|run| run.path == recording.path);
        let read;
        let one = match seen.iter().find(is_it) {
            Some(one) => one,
            // Without any activation there is nothing to weigh.
            None if !seen.iter().any(is_known) => continue,
            None => {
                read = loads(&ask::of(&[recording.path.clone().into()]))?;
                match read.first() {
                    Some(one) => one,
                    None => continue,
                }
            }
        };
        let known = one.causes()?;
        let usage = one.usage().unwrap_or(UsagePattern::ALWAYS);
        why::weigh(&mut causes.why, one, &known, usage)?;
    }
    Ok(())
}

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
    let charts = laggard_view::page::charts(&report, by_cpu, courses, explained.as_ref());
    Ok((report, charts, run))
}
