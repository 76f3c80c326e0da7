//! What to do about a result: the most important first.

use laggard_model::text::{count, percent};
use laggard_model::{Backend, Caveat, Severity};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Trust;
use crate::figures::RecordingReport;
use crate::remedy::{OWN, remedy};
use crate::sentences::still_waiting;
use crate::why::{self, WhyReport};

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
/// what made the system late (`why`, where its episodes are known) and what is
/// missing, then what would make the figures sharper.
pub fn advice(report: &RecordingReport, why: Option<&WhyReport>) -> Vec<Advice> {
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
    all.extend(still_waiting(report).map(|why| Advice {
        severity: Severity::Matters,
        why,
        what: "Find out who had its CPU (`laggard why`). How late it was in the end is not known: record until it is served.".into(),
    }));
    all.extend(why.map(of_causes).unwrap_or_default());
    all.extend(report.shortfalls.iter().map(of_caveat));
    all.extend(report.caveats.iter().map(of_caveat));
    all.sort_by_key(|one| one.severity);
    all.extend(record_longer(report));
    all
}

/// The leading causes, with what helps against each; what helps against two
/// is said once.
fn of_causes(why: &WhyReport) -> Vec<Advice> {
    let mut all: Vec<Advice> = Vec::new();
    for row in why::leading(&why.causes) {
        let what = match row.is_ours {
            true => Some(OWN),
            false => remedy(row.class),
        };
        let Some(what) = what else {
            continue;
        };
        if all.iter().all(|known| known.what != what) {
            all.push(Advice {
                severity: Severity::Matters,
                why: why::sentence(row, why.episodes),
                what: what.into(),
            });
        }
    }
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
        what: how_long(report, share.needs_samples?),
    })
}

/// How long to record for so many samples of the service that has fewest, at
/// this recording's pace.
#[allow(clippy::cast_precision_loss)]
fn how_long(report: &RecordingReport, samples: u64) -> String {
    let fewest = report.services.iter().map(|row| row.latency.samples);
    match fewest.filter(|&samples| samples > 0).min() {
        Some(fewest) => {
            let ns = report.duration_ns.ns() as f64 * samples as f64 / fewest as f64;
            format!("Record for about {}.", laggard_model::text::mean_time(ns))
        }
        None => "Record for longer.".into(),
    }
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

#[cfg(test)]
mod tests {
    use laggard_model::{CauseClass, Nanos};

    use super::*;
    use crate::why::CauseRow;

    fn row(class: CauseClass, who: &str, share: f64) -> CauseRow {
        CauseRow {
            class,
            who: Some(who.into()),
            is_ours: false,
            cpus: Vec::new(),
            episodes: 3,
            first_in: 2,
            per_hour: 1.0,
            total_ns: Nanos::from_ms(9),
            share,
            largest_ns: Nanos::from_ms(4),
            largest_episode: 1,
            largest_without_ns: Nanos::from_us(80),
            rhythm: None,
            worth: Vec::new(),
        }
    }

    #[test]
    fn a_remedy_for_two_leading_causes_is_given_once_and_small_causes_get_none() {
        let why = WhyReport {
            schema: 1,
            path: String::new(),
            duration_ns: Nanos::from_secs(1),
            service: None,
            episodes: 3,
            surplus: 0,
            overwritten: 0,
            total_ns: Nanos::from_ms(20),
            largest_ns: Nanos::from_ms(9),
            causes: vec![
                row(CauseClass::Equal, "rustc", 0.5),
                row(CauseClass::Equal, "cc1", 0.3),
                row(CauseClass::Stolen, "-", 0.15),
                row(CauseClass::Softirq, "NET_RX", 0.05),
            ],
            more_causes: 0,
            thresholds: Vec::new(),
            largest: Vec::new(),
            sentences: Vec::new(),
            shortfalls: Vec::new(),
        };

        let all = of_causes(&why);

        assert_eq!(all.len(), 2);
        assert!(all[0].why.contains("rustc"), "{}", all[0].why);
        assert!(all[1].what.contains("virtual machine"), "{}", all[1].what);
    }
}
