//! Threads that spent their time in page faults, according to their samples.

use laggard_model::{Activity, Address, CauseClass, Culprit, Nanos, StackSample, Symbols, Tid};

use super::context::SAME_INSTANT;
use super::index::EvidenceIndex;
use super::{HashMap, Part};

/// Functions that handle every page fault: x86, Arm, both.
const HANDLERS: [&str; 5] = [
    "exc_page_fault",
    "asm_exc_page_fault",
    "do_page_fault",
    "do_mem_abort",
    "handle_mm_fault",
];

/// Names page faults as the activity of a thread if at least a third of its samples are
/// in one. A thread also works before, after and between faults.
pub(super) fn name_page_faults(parts: &mut [Part], index: &EvidenceIndex<'_>, symbols: &Symbols) {
    let mut samples = index.evidence.samples.iter();
    if !samples.any(|sample| is_in_fault(sample, symbols)) {
        return;
    }
    let mut threads: HashMap<Tid, ThreadFaults<'_>> = HashMap::default();
    // Samples and samples in a page fault, per class and culprit.
    let mut counts: HashMap<(CauseClass, &Culprit), (usize, usize)> = HashMap::default();
    for part in parts.iter().filter(|part| is_of_thread(part)) {
        let Some(thread) = &part.slice.context.thread else {
            continue;
        };
        let entry = threads.entry(thread.tid);
        let entry = entry.or_insert_with(|| ThreadFaults::new(index.samples(thread.tid), symbols));
        // The sample is taken in the timer interrupt, which is a separate part.
        let (samples, faults) = entry.count(part.slice.from, part.slice.to + SAME_INSTANT);
        let count = counts.entry((part.class, &part.culprit)).or_default();
        *count = (count.0 + samples, count.1 + faults);
    }
    let is_fault = |part: &Part| {
        let count = counts.get(&(part.class, &part.culprit));
        let (samples, faults) = count.copied().unwrap_or_default();
        faults > 0 && faults * 3 >= samples && is_of_thread(part)
    };
    let named: Vec<bool> = parts.iter().map(is_fault).collect();
    for (part, _) in parts.iter_mut().zip(named).filter(|(_, named)| *named) {
        part.culprit.activity = Some(Activity::PageFault);
    }
}

/// Returns whether a sample was taken in a page fault.
fn is_in_fault(sample: &StackSample, symbols: &Symbols) -> bool {
    let is_handler = |address: &Address| {
        let symbol = symbols.kernel.get(address);
        symbol
            .and_then(|symbol| symbol.name.as_deref())
            .is_some_and(|name| HANDLERS.contains(&name))
    };
    sample.kernel.iter().any(is_handler)
}

/// Samples of a thread, with a running count of the samples in page faults.
struct ThreadFaults<'a> {
    samples: &'a [&'a StackSample],
    /// Number of page-fault samples before each sample, and in total.
    before: Vec<usize>,
}

impl<'a> ThreadFaults<'a> {
    fn new(samples: &'a [&'a StackSample], symbols: &Symbols) -> Self {
        let mut before = vec![0];
        let mut faults = 0;
        for sample in samples {
            faults += usize::from(is_in_fault(sample, symbols));
            before.push(faults);
        }
        Self { samples, before }
    }

    /// Counts samples from `from` to `to`, both included, and the page faults among
    /// them.
    fn count(&self, from: Nanos, to: Nanos) -> (usize, usize) {
        let first = self.samples.partition_point(|sample| sample.at_ns < from);
        let end = self.samples.partition_point(|sample| sample.at_ns <= to);
        let end = end.max(first);
        (end - first, self.before[end] - self.before[first])
    }
}

/// Returns whether the part is execution time of a thread.
fn is_of_thread(part: &Part) -> bool {
    matches!(
        part.class,
        CauseClass::HigherPriority | CauseClass::Equal | CauseClass::ReturnToUser
    ) && part.culprit.activity.is_none()
}
