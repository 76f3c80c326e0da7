//! Page faults: threads that spent their time in them, by their samples.

use laggard_model::{Activity, Address, CauseClass, Culprit, Episode, StackSample, Symbols};

use super::context::SAME_INSTANT;
use super::{Explanation, Part};

/// Through one of these functions every page fault goes: x86, Arm, both.
const HANDLERS: [&str; 5] = [
    "exc_page_fault",
    "asm_exc_page_fault",
    "do_page_fault",
    "do_mem_abort",
    "handle_mm_fault",
];

/// Names page faults as what a thread was at, where a third or more of the
/// samples that show it does. Before, after and between two faults it has
/// work of its own, or it would have none.
pub(super) fn name_page_faults(found: &mut Explanation, episode: &Episode, symbols: &Symbols) {
    let is_handler = |at: &Address| {
        let symbol = symbols.kernel.get(at);
        symbol
            .and_then(|symbol| symbol.name.as_deref())
            .is_some_and(|name| HANDLERS.contains(&name))
    };
    let mut seen: Vec<(CauseClass, Culprit, usize, usize)> = Vec::new();
    for part in found.parts.iter().filter(|part| is_of_thread(part)) {
        let (mut all, mut faults) = (0, 0);
        for sample in samples(part, episode) {
            all += 1;
            faults += usize::from(sample.kernel.iter().any(is_handler));
        }
        match seen
            .iter_mut()
            .find(|(class, who, ..)| (*class, who) == (part.class, &part.culprit))
        {
            Some((.., before, faults_before)) => {
                (*before, *faults_before) = (*before + all, *faults_before + faults)
            }
            None => seen.push((part.class, part.culprit.clone(), all, faults)),
        }
    }
    for (class, culprit, all, faults) in seen {
        if faults == 0 || faults * 3 < all {
            continue;
        }
        let same = |part: &&mut Part| part.class == class && part.culprit == culprit;
        for part in found.parts.iter_mut().filter(same) {
            part.culprit.activity = Some(Activity::PageFault);
        }
    }
}

/// Whether a thread's own work took the part.
fn is_of_thread(part: &Part) -> bool {
    matches!(
        part.class,
        CauseClass::HigherPriority | CauseClass::Equal | CauseClass::ReturnToUser
    ) && part.culprit.activity.is_none()
}

fn samples<'a>(part: &Part, episode: &'a Episode) -> impl Iterator<Item = &'a StackSample> {
    let tid = part.slice.context.thread.as_ref().map(|thread| thread.tid);
    let (from, to) = (part.slice.from, part.slice.to);
    // Its timer's interrupt, which is a part of its own, takes the sample.
    episode.evidence.samples.iter().filter(move |sample| {
        Some(sample.tid) == tid && sample.at_ns >= from && sample.at_ns <= to + SAME_INSTANT
    })
}
