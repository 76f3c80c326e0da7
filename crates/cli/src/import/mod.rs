//! `laggard import`: latencies in a Windows trace.

mod recording;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use laggard_answer::trace::{TraceReport, trace};
use laggard_etl::{Trace, TraceTally};
use laggard_record::Destination;
use laggard_view::doc::Detail;
use laggard_view::trace::document;

use crate::args::ImportArgs;
use crate::exit::Exit;
use crate::pipe;
use crate::pipe::Format;
use recording::TraceExtent;

pub(crate) fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    // Checked before the trace is read, which takes a while.
    let place = args.output.as_deref();
    let place = place.map(|path| recording::place(path, &args.file));
    let place = place.transpose()?;
    let (report, is_kept) =
        read(&args.file, place.as_ref()).with_context(|| args.file.display().to_string())?;
    print(args, &report)?;
    if let Some(place) = &place {
        #[cfg(target_os = "linux")]
        crate::measuring::hand_over(place.folder())?;
        say(place, is_kept);
    }
    if !report.has_latencies() {
        return Ok(Exit::Unmet);
    }
    Ok(if report.trusted {
        Exit::Ok
    } else {
        Exit::Untrustworthy
    })
}

fn print(args: &ImportArgs, report: &TraceReport) -> anyhow::Result<()> {
    /// Rows per table.
    const SHORT_ROWS: usize = 5;
    const FULL_ROWS: usize = 10;
    let format = Format {
        json: args.json,
        markdown: args.markdown,
    };
    let is_full = args.all || args.markdown || args.top.is_some();
    let rows = if is_full { FULL_ROWS } else { SHORT_ROWS };
    let rows = args.top.unwrap_or(rows);
    pipe::print_answer(format, report, || {
        document(report, rows, Detail::new(is_full))
    })
}

fn say(place: &Destination, is_kept: bool) {
    let path = place.path().display().to_string();
    pipe::say(&if is_kept {
        format!("Kept in {path}; next: laggard show {path}")
    } else {
        format!("no recording in {path}: the trace lacks latencies")
    });
}

/// Reads the trace, and returns whether it was recorded at `place`.
fn read(path: &Path, place: Option<&Destination>) -> anyhow::Result<(TraceReport, bool)> {
    // A pipe cannot be read twice, and opening one waits for its other end.
    if !fs::metadata(path)?.is_file() {
        bail!("not a regular file; an .etl trace is read twice and cannot be a pipe");
    }
    let mut file = Trace::open(laggard_files::open_regular(path)?)?;
    let mut tally = TraceTally::new(file.header());
    let mut extent = TraceExtent::default();
    file.visit(|event| {
        extent.opened.get_or_insert(event.ticks);
        tally.add_and_tell(event, |time| extent.add(&time));
    })?;
    let path = path.display().to_string();
    let report = trace(&path, file.header(), file.damage(), &tally);
    let is_kept = match place {
        Some(place) => recording::record(place, &mut file, &tally, &report, &extent)?,
        None => false,
    };
    Ok((report, is_kept))
}
