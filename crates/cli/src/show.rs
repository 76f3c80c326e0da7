//! `laggard show`: what recordings say.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::Context as _;
use laggard_analyze::distribution::{Fold, Split};
use laggard_model::{Caveat, Keep, Nanos};
use laggard_record::{Recording, Wanted};
use laggard_report::{Measured, RecordingReport, Report, SHOW_SCHEMA, Trust, Unit, text};

use crate::args::{ByArg, ShowArgs};
use crate::exit::Outcome;
use crate::pipe;

pub(crate) fn show(args: &ShowArgs) -> anyhow::Result<Outcome> {
    let reports = args
        .recordings
        .iter()
        .map(|dir| report_of(dir, args.by))
        .collect::<anyhow::Result<Vec<RecordingReport>>>()?;
    let untrustworthy = reports.iter().any(|report| report.trust != Trust::Good);
    if args.json {
        let report = Report {
            schema: SHOW_SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            recordings: reports,
        };
        pipe::print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        pipe::print(&as_text(&reports, args.by, args.unit))?;
    }
    Ok(if untrustworthy {
        Outcome::Untrustworthy
    } else {
        Outcome::Ok
    })
}

fn as_text(reports: &[RecordingReport], by: Option<ByArg>, unit: Unit) -> String {
    let options = text::Options { unit };
    match (reports, by) {
        ([only], _) => text::show(only, options),
        (several, Some(ByArg::Load)) => {
            let mut loads: BTreeMap<String, Vec<RecordingReport>> = BTreeMap::new();
            for report in several {
                let load = report
                    .load
                    .as_ref()
                    .map_or("no load", |load| load.name.as_str());
                loads.entry(load.into()).or_default().push(report.clone());
            }
            let parts: Vec<String> = loads
                .iter()
                .map(|(load, reports)| format!("Load: {load}\n{}", text::beside(reports, unit)))
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

/// Reads a recording and counts its activations, on all CPUs.
pub(crate) fn report_of(dir: &Path, by: Option<ByArg>) -> anyhow::Result<RecordingReport> {
    let recording = Recording::open(dir).with_context(|| format!("open `{}`", dir.display()))?;
    let manifest = recording.manifest();
    let lines = manifest.lines.len();
    let split = match by {
        Some(ByArg::Minute) => Split::Minutes {
            since: manifest.clock.start_ns,
        },
        _ => Split::Whole,
    };
    let mut shortfalls: Vec<Caveat> = recording.shortfalls().iter().map(Caveat::from).collect();
    if manifest.plan.keep == Keep::Tail {
        anyhow::bail!("`{}` keeps the tail only", dir.display());
    }
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let scanned = recording.scan_parallel(
        threads,
        Wanted::ALL,
        || (Fold::new(lines, split), None::<u64>),
        |(fold, last), batch| {
            fold.add(batch);
            *last = (*last).max(batch.expiry_ns.iter().max().copied());
        },
    );
    shortfalls.extend(scanned.shortfalls.iter().map(Caveat::from));
    let mut fold = Fold::new(lines, split);
    let mut last = None;
    for (part, part_last) in scanned.states {
        fold.merge(part);
        last = last.max(part_last);
    }
    let measured = Measured {
        path: dir.display().to_string(),
        manifest: manifest.clone(),
        shortfalls,
        fold,
        last: last.map(Nanos::from_ns),
    };
    Ok(laggard_report::recording(measured, by == Some(ByArg::Cpu)))
}
