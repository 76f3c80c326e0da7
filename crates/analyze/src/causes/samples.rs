//! To which part of an episode each stack sample belongs.

use laggard_model::{CauseClass, Episode, Nanos, Sampler, StackSample};

use super::Part;

/// The samples of an episode that show a part of it, each with that part's
/// index in `parts`, in order of time.
///
/// A sample by a timer is stamped within that timer's interrupt and shows what was
/// interrupted: the part before. One by an interrupt above that of timers shows the
/// part that it is stamped in. What the CPU was in the midst of when it was stopped
/// from outside did not take the time of the stop: samples that would show one are
/// left out, as are those from before another CPU fired the timer.
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

/// Whether no code took this time: the machine itself stood still.
const fn is_stop(class: CauseClass) -> bool {
    matches!(class, CauseClass::Stolen | CauseClass::Stall)
}

/// The instant before `at`.
fn before(at: Nanos) -> Option<Nanos> {
    Nanos::between(Nanos::from_ns(1), at)
}

fn part_at(parts: &[Part], at: Nanos) -> Option<usize> {
    let next = parts.partition_point(|part| part.slice.from <= at);
    let index = next.checked_sub(1)?;
    (at < parts[index].slice.to).then_some(index)
}
