//! `laggard import`: what another system's trace tells of latency.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, bail};
use laggard_answer::trace::{TraceReport, trace};
use laggard_etl::{Trace, TraceTally};
use laggard_model::text::Unit;
use laggard_view::text;

use crate::args::ImportArgs;
use crate::exit::Exit;
use crate::{pipe, terminal};

pub(crate) fn import(args: &ImportArgs) -> anyhow::Result<Exit> {
    let report = read(&args.file).with_context(|| args.file.display().to_string())?;
    pipe::print(&match args.json {
        true => pipe::json(&report)?,
        false => text::trace(&report, args.top, terminal::look(Unit::Auto)),
    })?;
    if !report.is_told() {
        return Ok(Exit::Unmet);
    }
    Ok(match report.is_trusted() {
        true => Exit::Ok,
        false => Exit::Untrustworthy,
    })
}

fn read(path: &Path) -> anyhow::Result<TraceReport> {
    // A pipe cannot be read twice, and to open one waits for its other end.
    if !fs::metadata(path)?.is_file() {
        bail!("is no file; an .etl is read twice, so that it must be one");
    }
    let mut from = Trace::open(File::open(path)?)?;
    let mut tally = TraceTally::new(from.header());
    from.visit(|event| tally.add(event))?;
    let path = path.display().to_string();
    Ok(trace(&path, from.header(), from.damage(), &tally))
}
