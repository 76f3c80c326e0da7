//! `laggard report`: recordings for others to look at.

use std::fs;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laggard_analyze::distribution::{Course, Courses, Cut, focuses};
use laggard_model::{Caveat, Keep, Manifest, Nanos};
use laggard_record::{Recording, Wanted};
use laggard_report::forecast::Horizon;
use laggard_report::page::{Charts, PageData};
use laggard_report::qos::LoadSeen;
use laggard_report::why::Late;
use laggard_report::{Measured, RecordingReport, Report, SHOW_SCHEMA, Trust};

use crate::args::ReportArgs;
use crate::exit::Outcome;
use crate::{evidence, forecast, pipe, qos, sched, show};

/// Threads that follow the courses: each has its own intervals, and more
/// would not read faster from one disk.
const THREADS: NonZeroUsize = NonZeroUsize::new(8).expect("eight is not zero");

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<Outcome> {
    let mut reports = Vec::new();
    let mut charts = Vec::new();
    for dir in &args.recordings {
        if args.markdown {
            reports.push(show::report_of(dir, None)?);
        } else {
            let (report, drawn) = drawn(dir)?;
            reports.push(report);
            charts.push(drawn);
        }
    }
    let is_good = reports.iter().all(|report| report.trust == Trust::Good);
    if args.markdown {
        let text = laggard_report::markdown(&reports);
        match &args.output {
            None => pipe::print(&text)?,
            Some(file) => write(file, &text)?,
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
        )?;
        let file = args.output.as_deref().unwrap_or(Path::new("report.html"));
        write(file, &laggard_report::page::html(&data)?)?;
        pipe::print(&format!("Wrote {}; open it in a browser\n", file.display()))?;
    }
    Ok(if is_good {
        Outcome::Ok
    } else {
        Outcome::Untrustworthy
    })
}

/// The page's data with what the recordings answer: forecasts, buffers, and
/// the user's task set. One without any activation answers nothing.
fn answered(args: &ReportArgs, report: Report, charts: Vec<Charts>) -> anyhow::Result<PageData> {
    let holds_some = |one: &RecordingReport| {
        one.duration_ns > Nanos::ZERO && one.services.iter().any(|row| row.latency.samples > 0)
    };
    let dirs: Vec<PathBuf> = args
        .recordings
        .iter()
        .zip(&report.recordings)
        .filter(|(_, one)| holds_some(one))
        .map(|(dir, _)| dir.clone())
        .collect();
    let seen = evidence::read(&dirs)?;
    let loads: Vec<&LoadSeen> = seen.iter().map(|one| &one.seen).collect();
    let applications = qos::choices(args.app.as_deref())?;
    Ok(PageData {
        forecast: match loads.is_empty() {
            true => None,
            false => Some(forecast::forecasts(&seen, None, &Horizon::ALL)?),
        },
        buffers: (!loads.is_empty()).then(|| laggard_report::page::buffers(&loads, applications)),
        sched: match &args.tasks {
            Some(file) => sched::answers(file, &seen)?,
            None => Vec::new(),
        },
        report,
        charts,
    })
}

/// Under another name first, so that a reader never sees half a report.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let context = || format!("write the report `{}`", file.display());
    let mut name = file
        .file_name()
        .ok_or_else(|| anyhow::anyhow!("give the name of a file after --output"))
        .with_context(context)?
        .to_owned();
    name.push(".part");
    let part = file.with_file_name(name);
    let written = fs::File::create(&part)
        .and_then(|mut part| part.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&part, file));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&part);
    }
    written.with_context(context)
}

/// A recording's figures, and what the page draws of them.
fn drawn(dir: &Path) -> anyhow::Result<(RecordingReport, Charts)> {
    let recording = Recording::open(dir)?;
    let measured = show::measured(&recording, None)?;
    let courses = courses(&recording, &measured);
    let Manifest { lines, clock, .. } = measured.manifest.clone();
    let by_cpu = laggard_report::recording(measured.clone(), true);
    let report = laggard_report::recording(measured, false);
    let episodes = recording.episodes()?;
    let shortfalls = recording.shortfalls().iter().chain(&episodes.shortfalls);
    let late = episodes.notes.as_ref().map(|notes| Late {
        path: dir.display().to_string(),
        manifest: recording.manifest(),
        episodes: &episodes.episodes,
        notes,
        shortfalls: shortfalls.map(Caveat::from).collect(),
    });
    let charts = laggard_report::page::charts(
        &report,
        by_cpu,
        &courses,
        (&lines, clock.start_ns),
        late.as_ref(),
    );
    Ok((report, charts))
}

/// Every service over time. What cannot be read was found when the
/// activations were counted, and is among the shortfalls already.
fn courses(recording: &Recording, measured: &Measured) -> Vec<Course> {
    let manifest = &measured.manifest;
    let is_partly = manifest.plan.keep == Keep::Tail;
    let groups = measured.fold.groups(&manifest.lines, false);
    let focuses = focuses(&groups, manifest.plan.threshold_ns, is_partly);
    let start = manifest.clock.start_ns;
    let end = manifest.clock.end_ns.or(measured.last).unwrap_or(start);
    let cut = Cut::new(start, end);
    let make = || Courses::new(&manifest.lines, &focuses, cut);
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let scanned = recording.scan_parallel(threads.min(THREADS), Wanted::all(), make, Courses::add);
    let mut all = make();
    scanned.states.into_iter().for_each(|part| all.merge(part));
    if is_partly {
        for one in recording.summaries().largest {
            all.add_largest(one.line, one.expiry, one.latency, one.missed);
        }
    }
    all.into_courses()
}
