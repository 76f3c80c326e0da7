//! Stalls that had not ended when measuring ended. Their length is a lower limit, so no
//! response has an upper limit.

use laggard_model::Nanos;

use super::{Pseudo, RareFrom, ResponseLimit, TaskAsked, TaskDoubt, TaskVerdict, Verdict};
use crate::load::Load;

/// Waits up to the slack divided by this are ordinary: every recording ends during some wait.
const ORDINARY_PART: u64 = 20;

/// Returns the longest wait of the service of a task, on its CPU if it has one, that had not
/// ended when measuring ended.
pub(super) fn longest(load: &Load, task: &TaskAsked) -> Option<Nanos> {
    let waits = load.runs.iter().flat_map(|run| &run.waiting);
    waits
        .filter(|waiting| waiting.service == task.service)
        .filter(|waiting| task.cpu.is_none_or(|cpu| waiting.cpu == cpu))
        .map(|waiting| waiting.at_least_ns)
        .max()
}

/// Adapts a verdict to a service that had waited this long when measuring ended.
pub(super) fn held(analysed: TaskVerdict, waited: Option<Nanos>) -> TaskVerdict {
    let task = &analysed.task;
    let slack = task.deadline_ns.saturating_sub(task.compute_ns);
    let Some(waited) = waited.filter(|waited| waited.ns() > slack.ns() / ORDINARY_PART) else {
        return analysed;
    };
    let verdict = match analysed.verdict {
        Verdict::Misses => Verdict::Misses,
        Verdict::Meets | Verdict::Unknown => Verdict::Unknown,
    };
    TaskVerdict {
        most_ns: None,
        slack_ns: None,
        rated_ns: None,
        verdict,
        doubts: match verdict {
            Verdict::Unknown => [
                vec![TaskDoubt::Waiting { waited_ns: waited }],
                analysed.doubts,
            ]
            .concat(),
            Verdict::Meets | Verdict::Misses => analysed.doubts,
        },
        limit: ResponseLimit::stall(waited),
        pseudo: analysed.pseudo.map(|pseudo| Pseudo {
            rare_from: RareFrom::Waiting,
            amortised_passes: false,
            exact_passes: false,
            ..pseudo
        }),
        waited_ns: Some(waited),
        ..analysed
    }
}
