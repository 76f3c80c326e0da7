//! Timelines of episodes of one cause.

use std::cmp::Reverse;

use laggard_model::{CauseClass, Nanos, Symbols};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::{EpisodeRow, Explained, ExplainedEpisode, Layer, Part, layers};
use super::{Its, is_part_of, overlap};

const MAX_EXAMPLES: usize = 3;
/// Number of parts of a timeline. The shortest of more parts are merged.
const MAX_MOMENTS: usize = 20;

/// Episode with the cause.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Example {
    pub episode: EpisodeRow,
    /// Time that the cause took in it.
    pub of_it_ns: Nanos,
    /// Activity from the expiry until the thread ran, without gaps.
    pub timeline: Vec<Moment>,
}

/// Part of a timeline.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Moment {
    /// Start, since the expiry.
    pub after_ns: Nanos,
    /// Length.
    pub ns: Nanos,
    /// Class of the cause. Absent: several short parts together.
    pub class: Option<CauseClass>,
    pub parts: usize,
    /// Whether it is the reported cause.
    pub is_it: bool,
    /// The thread and its interruptions, from the outside in. Empty for several short parts
    /// together.
    pub context: Vec<Layer>,
}

/// Returns the episodes with the most time of the cause, each of a different event.
pub(super) fn examples(its: &Its<'_, '_>, late: &Explained<'_>) -> Vec<Example> {
    let mut episodes: Vec<&(&ExplainedEpisode<'_>, Nanos)> = its.episodes.iter().collect();
    episodes.sort_by_key(|(explained, time)| (Reverse(*time), explained.episode.number));
    let mut chosen: Vec<&(&ExplainedEpisode<'_>, Nanos)> = Vec::new();
    for entry in episodes {
        let is_new =
            |other: &&(&ExplainedEpisode<'_>, Nanos)| !overlap(entry.0.episode, other.0.episode);
        if chosen.len() < MAX_EXAMPLES && chosen.iter().all(is_new) {
            chosen.push(entry);
        }
    }
    let symbols = late.symbols();
    let event = |(explained, time): &(&ExplainedEpisode<'_>, Nanos)| {
        let is_it = |part: &Part| is_part_of(its.row, part, symbols);
        Example {
            episode: EpisodeRow::new(explained, &late.late.manifest, symbols),
            of_it_ns: *time,
            // The order of recorded causes is unknown.
            timeline: if explained.episode.causes.is_empty() {
                timeline(
                    &explained.merged(),
                    explained.episode.expiry_ns,
                    is_it,
                    symbols,
                )
            } else {
                Vec::new()
            },
        }
    };
    chosen.into_iter().map(event).collect()
}

/// Returns the longest parts separately, and merges the parts between them.
fn timeline(
    parts: &[Part],
    expiry: Nanos,
    is_it: impl Fn(&Part) -> bool,
    symbols: &Symbols,
) -> Vec<Moment> {
    let mut by_length: Vec<usize> = (0..parts.len()).collect();
    by_length.sort_by_key(|&place| (Reverse(parts[place].time()), place));
    let mut is_told = vec![false; parts.len()];
    for index in by_length.into_iter().take(MAX_MOMENTS) {
        is_told[index] = true;
    }
    let mut moments: Vec<Moment> = Vec::new();
    for (part, is_told) in parts.iter().zip(is_told) {
        if let (false, Some(last)) = (is_told, moments.last_mut())
            && last.class.is_none()
        {
            last.ns += part.time();
            last.parts += 1;
            continue;
        }
        moments.push(Moment {
            after_ns: part.slice.from.saturating_sub(expiry),
            ns: part.time(),
            class: is_told.then_some(part.class),
            parts: 1,
            is_it: is_told && is_it(part),
            context: if is_told {
                layers(&part.slice.context, symbols)
            } else {
                Vec::new()
            },
        });
    }
    moments
}

#[cfg(test)]
mod tests {
    use laggard_analyze::causes::{Context, Slice};
    use laggard_model::Culprit;

    use super::*;

    #[test]
    fn long_timeline_has_few_parts_with_its_total_time() {
        let mut position = Nanos::ZERO;
        let parts: Vec<Part> = (0..1_000)
            .map(|n| {
                let from = position;
                position += Nanos::from_ns(1 + n * 7_919 % 1_000);
                Part {
                    slice: Slice {
                        from,
                        to: position,
                        context: Context::default(),
                    },
                    class: CauseClass::Softirq,
                    culprit: Culprit::default(),
                }
            })
            .collect();

        let shown = timeline(&parts, Nanos::ZERO, |_| true, &Symbols::default());

        let sum = shown.iter().fold(Nanos::ZERO, |sum, part| sum + part.ns);
        assert_eq!(sum, position);
        assert!(shown.len() <= 2 * MAX_MOMENTS + 1, "{}", shown.len());
        assert_eq!(shown.iter().map(|part| part.parts).sum::<usize>(), 1_000);
        assert_eq!(shown.iter().filter(|part| part.is_it).count(), MAX_MOMENTS);
        let mut next = Nanos::ZERO;
        for moment in &shown {
            assert_eq!(moment.after_ns, next);
            next += moment.ns;
        }
    }
}
