//! `laggard show`: what recordings say.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use laggard_analyze::distribution::{Fold, Latest, Lost, Split};
use laggard_model::text::Unit;
use laggard_model::{Caveat, Keep, LoadLabel, Nanos, printable};
use laggard_record::{Recording, Wanted};
use laggard_report::{Measured, RecordingReport, Report, SHOW_SCHEMA, Trust, text};

use crate::args::{ByArg, ShowArgs};
use crate::exit::Outcome;
use crate::{given, pipe, samples};

pub(crate) fn show(args: &ShowArgs) -> anyhow::Result<Outcome> {
    let reports = given::open(&args.recordings)?
        .iter()
        .map(|recording| report_of(recording, args.by))
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

/// Reads a recording and counts its activations, on all CPUs.
pub(crate) fn report_of(
    recording: &Recording,
    by: Option<ByArg>,
) -> anyhow::Result<RecordingReport> {
    let measured = measured(recording, by)?;
    Ok(laggard_report::recording(measured, by == Some(ByArg::Cpu)))
}

/// A recording with its activations counted.
pub(crate) fn measured(recording: &Recording, by: Option<ByArg>) -> anyhow::Result<Measured> {
    let mut shortfalls: Vec<Caveat> = recording.shortfalls().iter().map(Caveat::from).collect();
    let (mut fold, last) = if recording.manifest().plan.keep == Keep::Tail {
        if by == Some(ByArg::Minute) {
            anyhow::bail!(
                "`{}` keeps histograms by the hour only; record with `--keep all` to tell minutes apart",
                recording.dir().display()
            );
        }
        samples::stored(recording, &mut shortfalls)
    } else {
        count_samples(recording, by, &mut shortfalls)
    };
    let manifest = recording.manifest();
    fold.set_lost(Lost::of(&manifest.counts, &manifest.losses));
    Ok(Measured {
        path: recording.dir().display().to_string(),
        manifest: manifest.clone(),
        shortfalls,
        fold,
        last,
    })
}

/// Every sample, and the latest expiry.
fn count_samples(
    recording: &Recording,
    by: Option<ByArg>,
    shortfalls: &mut Vec<Caveat>,
) -> (Fold, Option<Nanos>) {
    let lines = recording.manifest().lines.len();
    let split = match by {
        Some(ByArg::Minute) => Split::Minutes {
            since: recording.manifest().clock.start_ns,
        },
        _ => Split::Whole,
    };
    let wanted = Wanted {
        seq: false,
        ..Wanted::all()
    };
    let new = || (Fold::new(lines, split), Latest::default());
    let (fold, last) = samples::gather(recording, NonZeroUsize::MAX, wanted, shortfalls, new);
    (fold, last.0)
}
