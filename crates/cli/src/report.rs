//! `laggard report`: recordings for other people.

use std::path::{Path, PathBuf};

use laggard_answer::forecast::{Horizon, forecasts};
use laggard_answer::overview::{self, made_for};
use laggard_answer::qos::{Application, assess, by_name, choices};
use laggard_answer::sched::{analysed, read_tasks};
use laggard_answer::show::RecordingReport;
use laggard_answer::why;
use laggard_answer::{Load, Report, SHOW_SCHEMA, have_no_work, have_rates, loads, open};
use laggard_model::{UsagePattern, printable};
use laggard_view::page::{Charts, ForecastPage, PageData, QosPage, SchedPage};

use crate::args::ReportArgs;
use crate::drawn::drawn;
use crate::exit::Exit;
use crate::figure::figure;
use crate::redacted::Copies;
use crate::{ask, pipe};

/// Default name of the page.
const PAGE: &str = "report.html";

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<Exit> {
    let application = args.app.as_deref().map(by_name).transpose()?;
    if !args.redact {
        return write(args, &args.recordings, application, args.output.as_deref());
    }
    // The directory of the recordings is private, too. From here, all are in one directory.
    let page = Path::new(PAGE);
    let file = match &args.output {
        None if args.markdown => None,
        output => Some(std::path::absolute(output.as_deref().unwrap_or(page))?),
    };
    let mut copies = Copies::make(&args.recordings)?;
    let application = application
        .map(|application| copies.application(&application))
        .transpose()?;
    write(args, &copies.names, application, file.as_deref())
}

/// Writes the requested format of `recordings` to `file`.
fn write(
    args: &ReportArgs,
    recordings: &[PathBuf],
    application: Option<Application>,
    file: Option<&Path>,
) -> anyhow::Result<Exit> {
    if let (Some(kind), Some(file)) = (args.figure.figure, file) {
        return figure(kind, &args.figure, recordings, application, file);
    }
    let mut reports = Vec::new();
    let mut charts = Vec::new();
    let mut runs = Vec::new();
    let mut overviews = Vec::new();
    let mut made = None;
    let opened = open(recordings)?;
    have_rates(&opened)?;
    let has_no_work = have_no_work(&opened);
    let is_for_demand = has_no_work.is_ok();
    if application.is_some() || args.tasks.is_some() {
        has_no_work?;
    }
    for recording in &opened {
        made.get_or_insert_with(|| made_for(recording.manifest()));
        if args.markdown {
            let (report, overview) =
                overview::read(recording, application.as_ref(), ask::threads())?;
            reports.push(report);
            overviews.push(overview);
        } else {
            let shown = drawn(recording, application.as_ref())?;
            reports.push(shown.report);
            overviews.push(shown.overview);
            charts.push(shown.charts);
            runs.extend(shown.run);
        }
    }
    let is_good = reports.iter().all(RecordingReport::is_reliable);
    if args.markdown {
        let text = laggard_view::markdown(&reports, &overviews);
        match file {
            None => pipe::print(&text)?,
            Some(file) => laggard_files::write(file, "report", text.as_bytes())?,
        }
    } else {
        // The application of the first recording comes first.
        let data = answered(
            args,
            application.or(made.flatten()),
            Report {
                schema: SHOW_SCHEMA,
                version: env!("CARGO_PKG_VERSION").into(),
                recordings: reports,
                overviews,
            },
            charts,
            &Load::of(runs),
            is_for_demand,
        )?;
        let file = file.unwrap_or(Path::new(PAGE));
        let page = laggard_view::page::html(&data)?;
        laggard_files::write(file, "report", page.as_bytes())?;
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

/// Creates the page's data with the answers: forecasts, buffers, and the user's task set. A
/// recording without a wakeup does not have answers.
fn answered(
    args: &ReportArgs,
    asked: Option<Application>,
    report: Report,
    mut charts: Vec<Charts>,
    seen: &[Load],
    is_for_demand: bool,
) -> anyhow::Result<PageData> {
    let applications = choices(asked)?;
    weigh(&report, &mut charts, seen)?;
    let forecast = if seen.is_empty() {
        None
    } else {
        let report = forecasts(seen, None, &Horizon::ALL)?;
        Some(ForecastPage::new(report))
    };
    Ok(PageData {
        forecast,
        qos: if is_for_demand && !seen.is_empty() {
            applications
                .into_iter()
                .map(|application| qos(seen, application))
                .collect()
        } else {
            Vec::new()
        },
        sched: match &args.tasks {
            Some(file) => {
                let tasks = read_tasks(file)?;
                let answers = seen
                    .iter()
                    .map(|load| Ok(SchedPage::new(analysed(load, &tasks)?)));
                answers.collect::<anyhow::Result<_>>()?
            }
            None => Vec::new(),
        },
        report,
        charts,
    })
}

/// Evaluates one application that the page offers.
fn qos(loads: &[Load], application: Application) -> QosPage {
    let outlooks = loads.iter().map(|load| assess(load, &application, None));
    let outlooks = outlooks.collect();
    QosPage::new(application, outlooks)
}

/// Adds the gains of the main causes, as in `laggard why`: for each recording separately, even if
/// several have the same load.
fn weigh(report: &Report, charts: &mut [Charts], loads_of_page: &[Load]) -> anyhow::Result<()> {
    for (recording, drawn) in report.recordings.iter().zip(charts) {
        let Some(causes) = &mut drawn.causes else {
            continue;
        };
        let is_it =
            |load: &&Load| matches!(load.runs.as_slice(), [only] if only.path == recording.path);
        let is_known = |load: &Load| load.runs.iter().any(|run| run.path == recording.path);
        let read;
        let load = match loads_of_page.iter().find(is_it) {
            Some(load) => load,
            // Answers need wakeups.
            None if !loads_of_page.iter().any(is_known) => continue,
            None => {
                read = loads(&ask::of(&[recording.path.clone().into()]))?;
                match read.first() {
                    Some(load) => load,
                    None => continue,
                }
            }
        };
        let causes_of_load = load.causes()?;
        let usage = load.usage().unwrap_or(UsagePattern::ALWAYS);
        why::add_gains(&mut causes.why, load, &causes_of_load, usage)?;
        causes.describe();
    }
    Ok(())
}
