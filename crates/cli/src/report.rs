//! `laggard report`: recordings for others to look at.

use std::path::Path;

use laggard_analyze::distribution::{Course, Courses, Cut, Fold, Split, focuses};
use laggard_model::{Caveat, Keep, Manifest, UsagePattern, printable};
use laggard_record::{Recording, Wanted};
use laggard_report::forecast::Horizon;
use laggard_report::page::{Charts, PageData};
use laggard_report::qos::LoadSeen;
use laggard_report::why::{self, Late};
use laggard_report::{Measured, RecordingReport, Report, SHOW_SCHEMA, Trust};

use crate::args::ReportArgs;
use crate::evidence::{Evidence, Searched, Single};
use crate::exit::Outcome;
use crate::floors::Floors;
use crate::{evidence, file, forecast, given, pipe, qos, samples, sched, show};

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<Outcome> {
    if !args.markdown {
        laggard_report::page::check()?;
    }
    let mut reports = Vec::new();
    let mut charts = Vec::new();
    let mut singles = Vec::new();
    for recording in &given::open(&args.recordings)? {
        if args.markdown {
            reports.push(show::report_of(recording, None)?);
        } else {
            let (report, drawn, seen) = drawn(recording)?;
            reports.push(report);
            charts.push(drawn);
            singles.extend(seen);
        }
    }
    let is_good = reports.iter().all(|report| report.trust == Trust::Good);
    if args.markdown {
        let text = laggard_report::markdown(&reports);
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
            &evidence::gather(singles),
        )?;
        let file = args.output.as_deref().unwrap_or(Path::new("report.html"));
        let page = laggard_report::page::html(&data)?;
        file::write(file, "report", page.as_bytes())?;
        pipe::print(&format!(
            "Wrote {}; open it in a browser\n",
            printable(&file.display().to_string())
        ))?;
    }
    Ok(if is_good {
        Outcome::Ok
    } else {
        Outcome::Untrustworthy
    })
}

/// The page's data with what the recordings answer: forecasts, buffers, and
/// the user's task set. One without any activation answers nothing.
fn answered(
    args: &ReportArgs,
    report: Report,
    mut charts: Vec<Charts>,
    seen: &[Evidence],
) -> anyhow::Result<PageData> {
    let loads: Vec<&LoadSeen> = seen.iter().map(|one| &one.seen).collect();
    let applications = qos::choices(args.app.as_deref())?;
    weigh(&report, &mut charts, seen)?;
    Ok(PageData {
        forecast: match loads.is_empty() {
            true => None,
            false => Some(forecast::forecasts(seen, None, &Horizon::ALL)?),
        },
        buffers: (!loads.is_empty()).then(|| laggard_report::page::buffers(&loads, applications)),
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
fn weigh(report: &Report, charts: &mut [Charts], seen: &[Evidence]) -> anyhow::Result<()> {
    for (recording, drawn) in report.recordings.iter().zip(charts) {
        let Some(causes) = &mut drawn.causes else {
            continue;
        };
        let is_it = |one: &&Evidence| matches!(one.seen.recordings.as_slice(), [only] if only.path == recording.path);
        let is_known = |one: &Evidence| {
            one.seen
                .recordings
                .iter()
                .any(|one| one.path == recording.path)
        };
        let read;
        let one = match seen.iter().find(is_it) {
            Some(one) => one,
            // Without any activation there is nothing to weigh.
            None if !seen.iter().any(is_known) => continue,
            None => {
                read = evidence::read(&[recording.path.clone().into()])?;
                match read.first() {
                    Some(one) => one,
                    None => continue,
                }
            }
        };
        let known = evidence::causes(one)?;
        let usage = one.usage.unwrap_or(UsagePattern::ALWAYS);
        why::weigh(&mut causes.why, &one.seen, &known, usage)?;
    }
    Ok(())
}

/// A recording's figures, and what the page draws of them.
pub(crate) fn drawn(
    recording: &Recording,
) -> anyhow::Result<(RecordingReport, Charts, Option<Single>)> {
    let mut measured = show::measured(recording, None)?;
    let episodes = recording.episodes()?;
    if episodes.notes.is_none() {
        // Nothing else would say it.
        measured
            .shortfalls
            .extend(episodes.shortfalls.iter().map(Caveat::from));
    }
    let (courses, seen) = courses(recording, &measured)?;
    let Manifest { lines, clock, .. } = measured.manifest.clone();
    let by_cpu = laggard_report::recording(measured.clone(), true);
    let report = laggard_report::recording(measured, false);
    let shortfalls = recording.shortfalls().iter().chain(&episodes.shortfalls);
    let late = episodes.notes.as_ref().map(|notes| Late {
        path: recording.dir().display().to_string(),
        manifest: recording.manifest(),
        episodes: &episodes.episodes,
        notes,
        latest: report
            .services
            .iter()
            .filter_map(|row| Some((row.service, row.route, row.latency.largest_ns?)))
            .collect(),
        shortfalls: shortfalls.map(Caveat::from).collect(),
    });
    let charts = laggard_report::page::charts(
        &report,
        by_cpu,
        &courses,
        (&lines, clock.start_ns),
        late.as_ref(),
    );
    Ok((report, charts, seen))
}

/// Every service over time, and what forecasts start from, in one pass; the
/// second is absent where there is no activation. What cannot be read was found
/// when the activations were counted, and is among the shortfalls already.
fn courses(
    recording: &Recording,
    measured: &Measured,
) -> anyhow::Result<(Vec<Course>, Option<Single>)> {
    let manifest = &measured.manifest;
    let is_partly = manifest.plan.keep == Keep::Tail;
    let groups = measured.fold.groups(&manifest.lines, false);
    let focuses = focuses(&groups, manifest.plan.threshold_ns, is_partly);
    let start = manifest.clock.start_ns;
    let end = manifest.clock.end_ns.or(measured.last).unwrap_or(start);
    let cut = Cut::new(start, end);
    // What was kept is counted only where something was not.
    let lines = if is_partly { manifest.lines.len() } else { 0 };
    let make = || {
        let courses = Courses::new(&manifest.lines, &focuses, cut);
        let late = (
            evidence::collector(manifest),
            Fold::new(lines, Split::Whole),
        );
        (courses, late)
    };
    let mut again = Vec::new();
    let (mut all, (late, kept)) =
        samples::gather(recording, samples::FEW, Wanted::all(), &mut again, make);
    let mut floors = Floors::default();
    if is_partly {
        floors = Floors::of(&manifest.lines, &kept, &measured.fold);
        for one in recording.summaries().largest {
            all.add_largest(
                one.line,
                one.expiry,
                one.latency,
                (one.missed, one.censored),
            );
        }
    }
    let some = groups
        .iter()
        .any(|group| group.latency.histogram().count() > 0);
    let seen = (some && end > start).then(|| {
        let searched = Searched {
            groups,
            floors,
            sums: measured.fold.sums(),
            late,
            last: measured.last,
            shortfalls: measured.shortfalls.clone(),
        };
        evidence::single(recording, searched)
    });
    Ok((all.into_courses(), seen.transpose()?))
}
