//! Things to do about a result, the most important first.

use laggard_answer::Distrust;
use laggard_answer::remedy::fix;
use laggard_answer::show::RecordingReport;
use laggard_answer::why::{LateWakeups, leading};
use laggard_model::text::{count, percent};
use laggard_model::{Backend, CauseClass, Caveat, CaveatKind, Severity};
use schemars::JsonSchema;
use serde::Serialize;

use crate::phrase::{capital, cause, overview, trust};

/// Something to do.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Advice {
    /// Effect of the reason on the result.
    pub severity: Severity,
    /// The reason.
    pub why: String,
    /// Recommended action.
    pub what: String,
}

/// Returns the advice for a recording. First come problems that invalidate its figures, then causes
/// of late wakeups (`why`, if its episodes are known) and missing parts, then measures for more
/// accurate figures.
pub fn advice(report: &RecordingReport, why: Option<&LateWakeups>) -> Vec<Advice> {
    let mut items: Vec<Advice> = Vec::new();
    if report.backend == Backend::Fake {
        items.push(Advice {
            severity: Severity::Spoils,
            why: "The recording was made from a script: the figures do not describe a machine."
                .into(),
            what: "Record without `--backend fake:`.".into(),
        });
    }
    let of_measuring = |severity| {
        move |reason: &Distrust| Advice {
            severity,
            why: sentence(&trust::problem(reason)),
            what: sentence(&trust::remedy(reason)),
        }
    };
    let reasons = report.trust.reasons().iter();
    items.extend(reasons.map(of_measuring(Severity::Spoils)));
    items.extend(overview::waiting(&report.waiting).map(|waiting| Advice {
        severity: Severity::Matters,
        why: sentence(&waiting),
        what: format!(
            "Find the thread that had its CPU ({}), and record until the thread runs.",
            if why.is_some_and(|why| why.episodes > 0) {
                "`laggard why`"
            } else {
                "`laggard why`, if trace data was recorded"
            }
        ),
    }));
    items.extend(why.map(|why| of_causes(why, report)).unwrap_or_default());
    items.extend(report.shortfalls.iter().map(|shortfall| Advice {
        severity: shortfall.severity(),
        why: sentence(&shortfall.to_string()),
        what: sentence(&shortfall.advice()),
    }));
    items.extend(report.caveats.iter().map(|caveat| of_caveat(caveat, why)));
    let doubts = report.doubts.iter();
    items.extend(doubts.map(of_measuring(Severity::Matters)));
    items.sort_by_key(|item| item.severity);
    items.extend(record_longer(report));
    items
}

/// Returns the main causes with their remedies. A remedy for two causes is listed once.
fn of_causes(late: &LateWakeups, report: &RecordingReport) -> Vec<Advice> {
    let mut items: Vec<Advice> = Vec::new();
    for row in leading(&late.causes) {
        let Some(fix) = fix(row, report) else {
            continue;
        };
        let what = cause::fix(&fix);
        if items.iter().all(|item| item.what != what) {
            items.push(Advice {
                severity: Severity::Matters,
                why: capital(&cause::sentence(row, late)),
                what,
            });
        }
    }
    items
}

/// A setting that can delay wakeups, but did not delay any of the explained ones, is only
/// mentioned.
fn of_caveat(caveat: &Caveat, why: Option<&LateWakeups>) -> Advice {
    let unseen = why
        .filter(|why| why.episodes > 0 && is_seen(caveat.kind, why) == Some(false))
        .map(|why| match why.more_causes {
            0 => " Not seen in this recording.",
            _ => " Not among the leading causes in this recording.",
        });
    let severity = caveat.kind.severity();
    Advice {
        severity: unseen.map_or(severity, |_| severity.max(Severity::Note)),
        why: sentence(&caveat.what) + unseen.unwrap_or_default(),
        what: sentence(&caveat.advice),
    }
}

/// Cause classes of wakeups that such a setting delayed.
const SEEN_AS: [(CaveatKind, CauseClass); 5] = [
    (CaveatKind::RtThrottling, CauseClass::RtThrottled),
    (CaveatKind::RtThrottling, CauseClass::FairServer),
    (CaveatKind::CpuQuota, CauseClass::Throttled),
    (CaveatKind::IdleStates, CauseClass::IdleExit),
    (CaveatKind::VirtualMachine, CauseClass::Stolen),
];

/// Returns true if a setting of this kind delayed wakeups in the report; `None` if no cause class
/// shows it.
fn is_seen(kind: CaveatKind, why: &LateWakeups) -> Option<bool> {
    let mut classes = SEEN_AS.iter().filter(|(setting, _)| *setting == kind);
    classes.clone().next()?;
    Some(classes.any(|(_, class)| why.causes.iter().any(|row| row.cause.class == *class)))
}

/// Recommends a length for the quantile that needs the fewest further samples. A longer recording
/// does not add samples to a minute.
fn record_longer(report: &RecordingReport) -> Option<Advice> {
    let rows = || report.services.iter().filter(|row| row.minute.is_none());
    let share = rows()
        .flat_map(|row| &row.latency.quantiles)
        .filter(|share| share.needs_samples.is_some())
        .min_by_key(|share| share.needs_samples)?;
    let needs = share.needs_samples?;
    let fewest = rows().map(|row| row.latency.samples).min()?;
    Some(Advice {
        severity: Severity::Note,
        why: format!(
            "The sample is too small for p{}, which needs {} samples of each service.",
            percent(share.q),
            count(needs)
        ),
        what: match fewest {
            0 => "Record until every service has run; how long that takes is not known.".into(),
            _ => how_long(report, needs, fewest),
        },
    })
}

/// Describes the recording length for this number of samples of the service with the `fewest`, at
/// the rate of this recording, and the resulting size.
fn how_long(report: &RecordingReport, needs: u64, fewest: u64) -> String {
    let times = needs as f64 / fewest as f64;
    let ns = report.duration_ns.as_f64() * times;
    let disk = match report.cost.written_bytes {
        0 => String::new(),
        bytes => format!(", which writes about {:.1} MB", bytes as f64 / 1e6 * times),
    };
    format!(
        "Record for about {}{disk}.",
        laggard_model::text::mean_time(ns)
    )
}

/// Adds a capital letter and a full stop.
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
