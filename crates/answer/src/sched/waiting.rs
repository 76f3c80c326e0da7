//! A stall that had not ended when measuring did: it is at least so long, and
//! nothing bounds a response from above.

use laggard_model::text::Unit;
use laggard_model::{Nanos, Service};

use super::{TaskVerdict, Verdict};
use crate::load::Load;

/// A wait of up to this part of the slack says nothing: every recording ends
/// while something is under way.
const ORDINARY_PART: u64 = 20;

/// The longest such stall of a service.
pub(super) fn longest(seen: &Load, service: Service) -> Option<Nanos> {
    let all = seen.runs.iter().flat_map(|one| &one.waiting);
    all.filter(|one| one.service == service)
        .map(|one| one.at_least_ns)
        .max()
}

/// What is left of a verdict on a service that had waited so long at the end.
pub(super) fn held(found: TaskVerdict, waited: Option<Nanos>) -> TaskVerdict {
    let task = &found.task;
    let slack = task.deadline_ns.saturating_sub(task.compute_ns);
    let Some(waited) = waited.filter(|waited| waited.ns() > slack.ns() / ORDINARY_PART) else {
        return found;
    };
    let doubt = format!(
        "it was still waiting when measuring ended, for {} by then, and how long in the end is not known: record until \
         it has run",
        Unit::Auto.write_nanos(waited)
    );
    let verdict = match found.verdict {
        Verdict::Misses => Verdict::Misses,
        Verdict::Meets | Verdict::Unclear => Verdict::Unclear,
    };
    TaskVerdict {
        most_ns: None,
        slack_ns: None,
        rated_ns: None,
        verdict,
        doubts: match verdict {
            Verdict::Unclear => [vec![doubt], found.doubts].concat(),
            Verdict::Meets | Verdict::Misses => found.doubts,
        },
        limit: format!(
            "a stall that had lasted for {} when measuring ended, and went on",
            Unit::Auto.write_nanos(waited)
        ),
        pseudo: found.pseudo.map(|pseudo| super::Pseudo {
            rare_from: "at least: a stall had not ended when measuring did, so no test passes"
                .into(),
            amortised_passes: false,
            exact_passes: false,
            ..pseudo
        }),
        waited_ns: Some(waited),
        ..found
    }
}
