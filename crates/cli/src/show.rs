//! `laggard show`: what recordings say.

use std::collections::BTreeMap;

use laggard_answer::show::{By, RecordingReport, report};
use laggard_answer::{LoadError, Report, SHOW_SCHEMA, Trust, open};
use laggard_model::text::Unit;
use laggard_model::{LoadLabel, printable};
use laggard_view::text;

use crate::args::{ByArg, ShowArgs};
use crate::exit::Exit;
use crate::{ask, pipe};

pub(crate) fn show(args: &ShowArgs) -> anyhow::Result<Exit> {
    let reports = open(&args.recordings)?
        .iter()
        .map(|recording| report(recording, rows(args.by), ask::threads()))
        .collect::<Result<Vec<RecordingReport>, LoadError>>()?;
    let untrustworthy = reports.iter().any(|report| report.trust != Trust::Good);
    if args.json {
        let report = Report {
            schema: SHOW_SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            recordings: reports,
            overviews: Vec::new(),
        };
        pipe::print(&pipe::json(&report)?)?;
    } else {
        pipe::print(&as_text(&reports, args.by, args.unit))?;
    }
    Ok(if untrustworthy {
        Exit::Untrustworthy
    } else {
        Exit::Ok
    })
}

fn as_text(reports: &[RecordingReport], by: Option<ByArg>, unit: Unit) -> String {
    let options = text::Options { unit };
    match (reports, by) {
        ([only], _) => text::show(only, options),
        (several, Some(ByArg::Load)) => {
            let mut loads: BTreeMap<LoadLabel, Vec<RecordingReport>> = BTreeMap::new();
            for report in several {
                let load = LoadLabel::of(report.load.as_ref());
                loads.entry(load).or_default().push(report.clone());
            }
            let parts: Vec<String> = loads
                .iter()
                .map(|(load, reports)| {
                    let load = printable(load.as_str());
                    format!("Load: {load}\n{}", text::beside(reports, unit))
                })
                .collect();
            parts.join("\n")
        }
        (several, Some(_)) => {
            let parts: Vec<String> = several.iter().map(|one| text::show(one, options)).collect();
            parts.join("\n\n")
        }
        (several, None) => text::beside(several, unit),
    }
}

/// What has a row of its own: two recordings of a load are beside each other
/// without any.
fn rows(by: Option<ByArg>) -> By {
    match by {
        Some(ByArg::Cpu) => By::Cpu,
        Some(ByArg::Minute) => By::Minute,
        Some(ByArg::Load) | None => By::Service,
    }
}
