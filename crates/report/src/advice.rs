//! What to do about a result: the most important first.

use laggard_model::{Backend, Caveat, Severity};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Trust;
use crate::duration::count;
use crate::figures::RecordingReport;
use crate::text::percent;

/// Something to do.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Advice {
    /// How much the reason bears on the result.
    pub severity: Severity,
    /// The reason.
    pub why: String,
    /// What to do.
    pub what: String,
}

/// What to do about a recording: first what makes its figures untrue, then
/// what is missing from them, then what made the system late, then what would
/// make them sharper.
pub fn advice(report: &RecordingReport) -> Vec<Advice> {
    let mut all: Vec<Advice> = Vec::new();
    if report.backend == Backend::Fake {
        all.push(Advice {
            severity: Severity::Spoils,
            why: "A script was played: these figures are of no machine.".into(),
            what: "Record without `--backend fake:`.".into(),
        });
    }
    if let Trust::None(reasons) = &report.trust {
        all.extend(reasons.iter().map(|reason| {
            let (why, what) = reason
                .split_once("; ")
                .unwrap_or((reason, "record again, and see `laggard doctor`"));
            Advice {
                severity: Severity::Spoils,
                why: sentence(why),
                what: sentence(what),
            }
        }));
    }
    all.extend(report.shortfalls.iter().map(of_caveat));
    let mut caveats: Vec<&Caveat> = report.caveats.iter().collect();
    caveats.sort_by_key(|caveat| caveat.kind.severity());
    all.extend(caveats.into_iter().map(of_caveat));
    all.extend(record_longer(report));
    all
}

fn of_caveat(caveat: &Caveat) -> Advice {
    Advice {
        severity: caveat.kind.severity(),
        why: sentence(&caveat.what),
        what: sentence(&caveat.advice),
    }
}

/// The quantile that needs the fewest more samples.
fn record_longer(report: &RecordingReport) -> Option<Advice> {
    let share = report
        .services
        .iter()
        .flat_map(|row| &row.latency.quantiles)
        .filter(|share| share.needs_samples.is_some())
        .min_by_key(|share| share.needs_samples)?;
    Some(Advice {
        severity: Severity::Note,
        why: format!(
            "The sample is too small for p{}, which needs {} samples of each service.",
            percent(share.q),
            count(share.needs_samples?)
        ),
        what: "Record for longer.".into(),
    })
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let mut sentence: String = letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default();
    if !sentence.ends_with(['.', '!', '?']) {
        sentence.push('.');
    }
    sentence
}
