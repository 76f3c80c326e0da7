//! Who made activations late, and what to do about it first.

use laggard_model::CauseClass;

use super::{First, Late, LateCause};
use crate::remedy::remedy;
use crate::show::RecordingReport;
use crate::why::{self, CauseRow, Explained, WhyReport};
use laggard_model::Service;

/// So many causes are listed.
const MOST: usize = 3;

/// The late activations of `service`, or all where it had none.
pub(super) fn late(explained: &Explained<'_>, service: Option<Service>) -> Option<WhyReport> {
    let of = |service: Option<Service>| {
        let report = explained.only(service).report(MOST);
        (report.episodes > 0).then_some(report)
    };
    service
        .and_then(|service| of(Some(service)))
        .or_else(|| of(None))
}

impl Late {
    pub(super) fn of(why: &WhyReport) -> Self {
        Self {
            service: why.service,
            activations: why.episodes,
            total_ns: why.total_ns,
            largest_ns: why.largest_ns,
            largest_is_at_least: why.largest_is_at_least,
            causes: why.causes.iter().map(LateCause::of).collect(),
            more_causes: why.more_causes,
            surplus: why.surplus,
        }
    }
}

impl LateCause {
    /// Who, where `words` name them before what they did.
    pub fn named_first(&self) -> Option<&str> {
        named_first(self.class, self.who.as_deref())
    }

    fn of(row: &CauseRow) -> Self {
        Self {
            class: row.class,
            who: row.who.clone(),
            how: row.class.in_short().into(),
            words: words(row),
            is_ours: row.is_ours,
            share: row.share,
            times: row.episodes,
            largest_ns: row.largest_ns,
            is_at_least: row.is_at_least,
            rhythm: row.rhythm.clone(),
        }
    }
}

impl First {
    /// Against the first of the leading causes that a user can do anything
    /// about. What laggard's own threads took is not the machine's.
    pub(super) fn of(why: &WhyReport, report: &RecordingReport) -> Option<Self> {
        why::leading(&why.causes)
            .filter(|row| !row.is_ours)
            .find_map(|row| {
                Some(Self {
                    cause: words(row),
                    what: remedy(row, report)?,
                    largest_without_ns: row.largest_without_ns,
                    largest_without_is_at_least: row.largest_without_is_at_least,
                })
            })
    }
}

/// Who did what a class says; an activity says what it is itself, behind its kind.
fn named_first(class: CauseClass, who: Option<&str>) -> Option<&str> {
    let is_activity = matches!(class, CauseClass::Interrupt | CauseClass::Softirq);
    who.filter(|_| !is_activity)
}

/// A cause in few words, who first: `kworker/1:2, preemption disabled`.
fn words(row: &CauseRow) -> String {
    let how = row.class.in_short();
    let who = row.who.as_deref();
    match (named_first(row.class, who), who) {
        (Some(who), _) => format!("{who}, {how}"),
        (None, Some(who)) => format!("{how} {who}"),
        (None, None) => how.to_owned(),
    }
}
