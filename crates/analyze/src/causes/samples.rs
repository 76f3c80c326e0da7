//! Assignment of stack samples to the parts of an episode.

use laggard_model::{CauseClass, Episode, Nanos, Sampler, StackSample};

use super::Part;

/// Returns the samples that show a part of the episode, each with the index of its part
/// in `parts`, in time order.
///
/// A timer's sample is stamped within the timer interrupt and shows the interrupted
/// code: the part before. An NMI's sample shows the part where it is stamped. The function omits
/// two kinds of samples. A sample of a stop from outside is omitted, because the interrupted code
/// did not take that time. A sample from before another CPU fired the timer is also omitted.
pub fn samples_by_part<'a>(episode: &'a Episode, parts: &[Part]) -> Vec<(usize, &'a StackSample)> {
    let sampler = episode.evidence.sampler.map(|(sampler, _)| sampler);
    let is_above = matches!(sampler, Some(Sampler::Nmi | Sampler::Profile));
    let shown = |sample: &'a StackSample| {
        let within = part_at(parts, sample.at_ns)?;
        let interrupt = parts[within].slice.context.interrupt();
        let shown = match interrupt {
            Some(interrupt) if !is_above => part_at(parts, before(interrupt.since)?)?,
            _ => within,
        };
        let part = &parts[shown];
        let is_here = part.slice.from >= episode.here_from();
        (is_here && !is_stop(part.class)).then_some((shown, sample))
    };
    episode.evidence.samples.iter().filter_map(shown).collect()
}

/// Returns whether no code took this time because the machine itself was stopped.
const fn is_stop(class: CauseClass) -> bool {
    matches!(class, CauseClass::Stolen | CauseClass::Stall)
}

/// Returns the time one nanosecond before `time`.
fn before(time: Nanos) -> Option<Nanos> {
    Nanos::between(Nanos::from_ns(1), time)
}

fn part_at(parts: &[Part], time: Nanos) -> Option<usize> {
    let next = parts.partition_point(|part| part.slice.from <= time);
    let index = next.checked_sub(1)?;
    (time < parts[index].slice.to).then_some(index)
}
