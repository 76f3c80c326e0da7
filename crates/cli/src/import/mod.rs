//! `laggard import`: what another system's trace tells of latency.

mod recording;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use laggard_answer::trace::{TraceReport, trace};
use laggard_etl::{Trace, TraceTally};
use laggard_model::text::Unit;
use laggard_record::Destination;
use laggard_view::text;

use crate::args::ImportArgs;
use crate::exit::Exit;
use crate::{pipe, terminal};
use recording::TraceExtent;

pub(crate) fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    // A folder that is in use is found out before the trace is read.
    let place = args.output.as_deref();
    let place = place.map(|path| recording::place(path, &args.file));
    let place = place.transpose()?;
    let (report, is_kept) =
        read(&args.file, place.as_ref()).with_context(|| args.file.display().to_string())?;
    pipe::print(&if args.json {
        pipe::json(&report)?
    } else {
        text::trace(&report, args.top, terminal::look(Unit::Auto))
    })?;
    if let Some(place) = &place {
        #[cfg(target_os = "linux")]
        crate::measuring::hand_over(place.folder())?;
        say(place, is_kept);
    }
    if !report.is_told() {
        return Ok(Exit::Unmet);
    }
    Ok(if report.trusted {
        Exit::Ok
    } else {
        Exit::Untrustworthy
    })
}

fn say(place: &Destination, is_kept: bool) {
    let shown = place.path().display().to_string();
    pipe::say(&if is_kept {
        format!("Kept in {shown}; laggard show {shown}")
    } else {
        format!("nothing to be kept in {shown}: the trace has no times")
    });
}

/// What the trace tells, and whether that was recorded at `place`.
fn read(path: &Path, place: Option<&Destination>) -> anyhow::Result<(TraceReport, bool)> {
    // A pipe cannot be read twice, and to open one waits for its other end.
    if !fs::metadata(path)?.is_file() {
        bail!("is no file; an .etl is read twice, so that it must be one");
    }
    let mut from = Trace::open(laggard_files::open_regular(path)?)?;
    let mut tally = TraceTally::new(from.header());
    let mut extent = TraceExtent::default();
    from.visit(|event| {
        extent.opened.get_or_insert(event.ticks);
        tally.add_and_tell(event, |one| extent.add(&one));
    })?;
    let path = path.display().to_string();
    let report = trace(&path, from.header(), from.damage(), &tally);
    let is_kept = match place {
        Some(place) => recording::record(place, &mut from, &tally, &report, &extent)?,
        None => false,
    };
    Ok((report, is_kept))
}
