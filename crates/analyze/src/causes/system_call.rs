//! System calls whose code keeps interrupts or preemption disabled, according to samples.

use laggard_model::{Address, CauseClass, StackSample, Symbols};

use super::Part;
use super::index::EvidenceIndex;

/// Adds the system call to the culprit of each part with interrupts or preemption disabled.
pub(super) fn name_system_calls(parts: &mut [Part], index: &EvidenceIndex<'_>, symbols: &Symbols) {
    let is_off = |part: &&mut Part| {
        matches!(
            part.class,
            CauseClass::InterruptsOff | CauseClass::PreemptionOff
        )
    };
    for part in parts.iter_mut().filter(is_off) {
        let (Some(frame), Some(thread)) = (part.culprit.frame, &part.slice.context.thread) else {
            continue;
        };
        // The sample that named the code. A sampler that uses a timer takes it after the part.
        let samples = index.samples(thread.tid);
        let first = samples.partition_point(|sample| sample.at_ns < part.slice.from);
        let mut of_code = samples[first..].iter();
        let sample = of_code.find(|sample| sample.kernel.first() == Some(&frame));
        part.culprit.system_call = sample
            .and_then(|sample| system_call_of(sample, symbols))
            .map(Into::into);
    }
}

/// Returns the outermost system call of a sample.
fn system_call_of<'a>(sample: &StackSample, symbols: &'a Symbols) -> Option<&'a str> {
    let mut outermost_first = sample.kernel.iter().rev();
    outermost_first.find_map(|address: &Address| symbols.system_call(*address))
}
