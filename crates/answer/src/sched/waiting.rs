//! A stall that had not ended when measuring did: it is at least so long, and
//! nothing bounds a response from above.

use laggard_model::{Nanos, Service};

use super::{Pseudo, RareFrom, ResponseLimit, TaskDoubt, TaskVerdict, Verdict};
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
            Verdict::Unclear => [vec![TaskDoubt::Waiting { waited }], found.doubts].concat(),
            Verdict::Meets | Verdict::Misses => found.doubts,
        },
        limit: ResponseLimit::stall(waited),
        pseudo: found.pseudo.map(|pseudo| Pseudo {
            rare_from: RareFrom::Waiting,
            amortised_passes: false,
            exact_passes: false,
            ..pseudo
        }),
        waited_ns: Some(waited),
        ..found
    }
}
