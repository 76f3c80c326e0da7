//! Reasons against a return level.

use laggard_answer::forecast::{LevelReason, Objection, Refused};
use laggard_answer::{CauseSet, MissingTraces};
use laggard_model::NamedCause;

use super::super::cause;
use super::time;
use crate::doc::Cell;

/// Reason against a level, in parts.
pub(crate) struct ReasonText {
    fact: String,
    /// Fact without the figures of one recording.
    pub(super) in_short: String,
    /// Figure of a statistical test.
    figure: Option<String>,
    /// Remedy, or the known part of the answer.
    remedy: Option<String>,
}

impl ReasonText {
    /// Joins the parts. Without the figure, a reason has the same text for every service.
    pub(crate) fn text(&self, has_figure: bool) -> String {
        let figure = self.figure.as_ref().filter(|_| has_figure);
        let figure = figure.map_or_else(String::new, |figure| format!(" ({figure})"));
        let remedy = self.remedy.as_ref();
        let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
        format!("{}{figure}{remedy}", self.fact)
    }
}

/// States a reason against a level.
pub(crate) fn level_reason(reason: &LevelReason) -> ReasonText {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let (fact, figure, remedy) = match *reason {
        LevelReason::TooFewPeaks { peaks, needed } => (
            match peaks {
                0 => "no independent peak".into(),
                1 => "only 1 independent peak".into(),
                _ => format!("only {peaks} independent peaks"),
            },
            None,
            Some(format!("{needed} are needed")),
        ),
        LevelReason::BelowThreshold { at_most } => (
            "the level lies below the threshold".into(),
            None,
            Some(format!("it is at most {}", time(at_most))),
        ),
        LevelReason::TooFar { factor, most } => (
            format!(
                "the recording is too short for the horizon of {} its length",
                Cell::Ratio(factor)
            ),
            None,
            Some(format!("at most {most} x can be forecast")),
        ),
        LevelReason::Periodic { share } => (
            format!(
                "a periodic source made {} of the exceedances",
                percent(share)
            ),
            None,
            Some("forecast by cause".into()),
        ),
        LevelReason::CausesUnknown { share } => (
            format!(
                "the causes of {} of the peaks are not known",
                percent(share)
            ),
            None,
            None,
        ),
        LevelReason::Ties { share } => (
            format!("{} of the peaks are equal", percent(share)),
            None,
            Some("the timer is too coarse".into()),
        ),
        LevelReason::Correlated { p } => (
            "peaks are correlated".into(),
            Some(p_value(p)),
            Some("clusters are still joined, or the load varies".into()),
        ),
        LevelReason::RateChanges { p } => (
            "the rate of peaks changes in time".into(),
            Some(p_value(p)),
            Some("record a steady load".into()),
        ),
        LevelReason::SizeChanges { statistic } => (
            "the size of peaks changes in time".into(),
            Some(format!("KPSS {statistic:.2}")),
            Some("record a steady load".into()),
        ),
        LevelReason::Drifts => (
            "latencies drift or changed".into(),
            None,
            Some("record a steady load".into()),
        ),
        LevelReason::NoFit => (
            "no threshold gives a tail of one form".into(),
            None,
            Some("causes differ, forecast by cause".into()),
        ),
        LevelReason::HeavyTail { shape } => (
            "the tail is too heavy".into(),
            Some(format!("shape {shape:.2}")),
            Some("record longer or find the cause".into()),
        ),
        LevelReason::BoundedTail => (
            "the tail ends abruptly".into(),
            None,
            Some("report the max and find out what limits it".into()),
        ),
        LevelReason::StillWaiting { at_least } => (
            format!(
                "a peak of at least {} had not ended when measuring did",
                time(at_least)
            ),
            None,
            Some("record until it has".into()),
        ),
        LevelReason::Uncertain { value, high, most } => (
            format!(
                "the upper limit {} is more than {most} times the estimate {}",
                time(high),
                time(value)
            ),
            None,
            None,
        ),
        LevelReason::Unusable => ("the peaks cannot be used".into(), None, None),
    };
    let in_short = if matches!(reason, LevelReason::TooFar { .. }) {
        "the recording is too short for the horizon".into()
    } else {
        fact.clone()
    };
    ReasonText {
        fact,
        in_short,
        figure,
        remedy,
    }
}

/// Writes a p-value. One that rounds to 0 has a limit instead.
fn p_value(p: f64) -> String {
    if p < 0.001 {
        "p < 0.001".into()
    } else {
        format!("p {p:.3}")
    }
}

/// States an objection to a level. `has_figure` adds the figure of a statistical test.
pub(crate) fn objection(objection: &Objection, has_figure: bool) -> String {
    let words = level_reason(&objection.reason).text(has_figure);
    let Some(scope) = &objection.by_cause else {
        return words;
    };
    let source = scope
        .source
        .as_ref()
        .map(|source| format!("{}: ", set(source)));
    let missing = scope.missing_traces.map_or("", missing_traces);
    format!("by cause: {}{words}{missing}", source.unwrap_or_default())
}

/// States all reasons why there is no level.
pub(crate) fn objections(refused: &Refused) -> String {
    let reasons = refused.reasons.iter();
    let reasons: Vec<String> = reasons.map(|reason| objection(reason, true)).collect();
    reasons.join("; ")
}

const fn missing_traces(missing: MissingTraces) -> &'static str {
    match missing {
        MissingTraces::WatchedThreads => {
            "; the recording does not keep every late wakeup of a watched thread; `laggard attach` prints more about them"
        }
        MissingTraces::LearnedThreshold => {
            "; some came in the first 3 s, before the latency threshold was known; record with `--threshold`, or for longer"
        }
        MissingTraces::TooMany => {
            "; there were too many to keep; record with a larger `--max-episodes-per-minute`, which costs CPU time and disk space for each"
        }
    }
}

/// Names causes that share a tail.
fn set(set: &CauseSet) -> String {
    match set {
        CauseSet::Cause(cause) => named(cause),
        CauseSet::Class { class } => format!("{}, all together", class.words()),
        CauseSet::Others => "all other causes together".into(),
    }
}

pub(super) fn named(named: &NamedCause) -> String {
    cause::name(named, &[])
}

#[cfg(test)]
mod tests {
    use laggard_answer::forecast::ObjectionScope;
    use laggard_model::CauseClass;

    use super::*;

    #[test]
    fn objection_has_its_figure_on_request() {
        let correlated = Objection {
            reason: LevelReason::Correlated { p: 0.0004 },
            by_cause: None,
        };
        let named = NamedCause::new(CauseClass::Softirq, Some("(p 1); x"));
        let of_cause = Objection {
            reason: LevelReason::HeavyTail { shape: 0.61 },
            by_cause: Some(ObjectionScope {
                source: Some(CauseSet::Cause(named)),
                missing_traces: None,
            }),
        };

        assert!(objection(&correlated, true).starts_with("peaks are correlated (p < 0.001)"));
        assert!(objection(&correlated, false).starts_with("peaks are correlated; "));
        // A name that looks like a figure stays.
        assert_eq!(
            objection(&of_cause, false),
            "by cause: softirq: (p 1); x: the tail is too heavy; record longer or find the cause"
        );
    }

    /// `laggard attach` has no options of `laggard record`.
    #[test]
    fn watched_threads_get_no_option_of_record() {
        assert!(missing_traces(MissingTraces::LearnedThreshold).contains("--threshold"));
        assert!(missing_traces(MissingTraces::TooMany).contains("--max-episodes-per-minute"));
        assert!(!missing_traces(MissingTraces::WatchedThreads).contains("--"));
    }
}
