//! `laggard show`: summary of recordings.

use laggard_answer::overview::{self, Overview, OverviewError};
use laggard_answer::qos::by_name;
use laggard_answer::show::{
    By, INTERVALS_SCHEMA, IntervalsReport, RecordingReport, intervals, report,
};
use laggard_answer::why::RecordedEpisodes;
use laggard_answer::{Report, SHOW_SCHEMA, Trust, have_no_work, have_rates, open};
use laggard_model::RowsOf;
use laggard_model::text::Unit;
use laggard_record::Recording;
use laggard_view::doc::{self, Detail, Document};
use laggard_view::{overview as view, show as figures_view, text};

use crate::args::{ByArg, ShowArgs};
use crate::exit::Exit;
use crate::{ask, pipe, terminal};

pub(crate) fn show(args: &ShowArgs) -> anyhow::Result<Exit> {
    let recordings = open(&args.recordings)?;
    if args.intervals {
        return between_runs(&recordings, args);
    }
    let (reports, overviews) = match args.by {
        // The first screen is of how often something is late.
        None if !args.is_figures()
            && (args.application.is_some()
                || have_rates(&recordings).is_ok() && have_no_work(&recordings).is_ok()) =>
        {
            have_no_work(&recordings)?;
            in_short(&recordings, args)?
        }
        by => (in_figures(&recordings, by, args.all)?, Vec::new()),
    };
    let is_reliable = reports.iter().all(RecordingReport::is_reliable);
    if args.json {
        let report = Report {
            schema: SHOW_SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            recordings: reports,
            overviews,
        };
        pipe::print(&pipe::json(&report)?)?;
    } else if overviews.is_empty() {
        pipe::print_screen(&figures(&reports, args))?;
    } else {
        pipe::print_screen(&screen(&overviews, args.unit))?;
    }
    Ok(exit(is_reliable))
}

/// Prints the times between the runs of each service.
fn between_runs(recordings: &[Recording], args: &ShowArgs) -> anyhow::Result<Exit> {
    let read = |recording| intervals(recording, args.bins, ask::threads());
    let read: Result<Vec<_>, _> = recordings.iter().map(read).collect();
    let report = IntervalsReport {
        schema: INTERVALS_SCHEMA,
        recordings: read?,
    };
    // The trust needs all figures.
    let reports = in_figures(recordings, None, false)?;
    let trusts: Vec<&Trust> = reports.iter().map(|report| &report.trust).collect();
    if args.json {
        pipe::print(&pipe::json(&report)?)?;
    } else {
        let document = laggard_view::intervals::document(&report, &trusts, args.unit);
        pipe::print_screen(&doc::terminal(&document, terminal::look(args.unit)))?;
    }
    Ok(exit(reports.iter().all(RecordingReport::is_reliable)))
}

const fn exit(is_reliable: bool) -> Exit {
    if is_reliable {
        Exit::Ok
    } else {
        Exit::Untrustworthy
    }
}

/// Returns the report and the first screen of each recording.
fn in_short(
    recordings: &[Recording],
    args: &ShowArgs,
) -> anyhow::Result<(Vec<RecordingReport>, Vec<Overview>)> {
    let application = args.application.as_deref().map(by_name).transpose()?;
    let read = |recording| overview::read(recording, application.as_ref(), ask::threads());
    let read: Result<Vec<_>, OverviewError> = recordings.iter().map(read).collect();
    Ok(read?.into_iter().unzip())
}

fn in_figures(
    recordings: &[Recording],
    by: Option<ByArg>,
    is_all: bool,
) -> anyhow::Result<Vec<RecordingReport>> {
    let read = |recording| {
        let mut report = report(recording, rows(by), ask::threads())?;
        // A damaged file of late wakeups is a missing part too. Reading it takes longer than
        // all other files.
        if is_all || report.plan.rows == RowsOf::Activations {
            RecordedEpisodes::read_if_any(recording, |_| false, &mut report.shortfalls)?;
        }
        Ok(report)
    };
    recordings.iter().map(read).collect()
}

fn screen(overviews: &[Overview], unit: Unit) -> text::Screen {
    let look = terminal::look(unit);
    let document = match overviews {
        [only] => view::document(only, Detail::Short),
        several => view::documents(several),
    };
    doc::terminal(&document, look)
}

/// Describes the figures that the options ask for.
fn figures(reports: &[RecordingReport], args: &ShowArgs) -> text::Screen {
    let detail = Detail::new(args.all);
    let each = |describe: &dyn Fn(&RecordingReport) -> Document| {
        let mut latency = Document::new("Latency");
        let documents = reports.iter().map(describe);
        latency.blocks = documents.flat_map(|document| document.blocks).collect();
        latency
    };
    let is_split = matches!(args.by, Some(ByArg::Cpu | ByArg::Minute));
    let document = match reports {
        _ if args.stages => each(&figures_view::stages),
        [report] if !args.is_figures() && args.by.is_none() => figures_view::screen(report),
        [_] => each(&|report| figures_view::document(report, detail)),
        several if args.by == Some(ByArg::Load) => figures_view::by_load(several),
        _ if is_split => each(&|report| figures_view::document(report, detail)),
        several => figures_view::side_by_side(several),
    };
    doc::terminal(&document, terminal::look(args.unit))
}

/// Returns the grouping of the rows. Two recordings under one load are side by side by default.
fn rows(by: Option<ByArg>) -> By {
    match by {
        Some(ByArg::Cpu) => By::Cpu,
        Some(ByArg::Minute) => By::Minute,
        Some(ByArg::Load) | None => By::Service,
    }
}
