//! Periods of culprits. All are searched at once, because each further one makes chance
//! more likely.
//!
//! A culprit has a row in the ranking for each place in the code that samples showed. Each
//! row has only some of its visits, and a part of a comb looks like a comb with twice the
//! period. So the search ignores the place.

use std::collections::{BTreeMap, BTreeSet};

use laggard_analyze::causes::{RankedCause, Rhythm, Watched, rank, rhythms};
use laggard_model::name;
use laggard_model::{Culprit, NamedCause, ProbePlan, Symbols};

use super::ExplainedEpisode;
use super::cause::named;
use super::explained::explanations;

/// Periods of causes without the place in the code.
#[derive(Debug)]
pub(super) struct Rhythms {
    /// Only of causes with a place.
    without_place: BTreeMap<NamedCause, NamedCause>,
    rhythms: BTreeMap<NamedCause, Rhythm>,
}

impl Rhythms {
    /// Searches the `wanted` causes, and determines whether they were present during the time that
    /// they were watched. A culprit that is always present seems to have the period of the probe,
    /// which is in `plan`.
    pub(super) fn new<'a>(
        explained: &[ExplainedEpisode<'_>],
        symbols: &Symbols,
        wanted: impl Iterator<Item = &'a NamedCause>,
        watched: &Watched,
        plan: &ProbePlan,
    ) -> Self {
        let mut without_place = BTreeMap::new();
        let causes = explained.iter().flat_map(ExplainedEpisode::causes);
        for cause in causes.filter(|cause| cause.culprit.frame.is_some()) {
            without_place.insert(
                named(cause, symbols),
                NamedCause::without_place(cause.class, &cause.culprit, symbols),
            );
        }
        let who = |culprit: &Culprit| {
            let culprit = Culprit {
                frame: None,
                system_call: None,
                ..culprit.clone()
            };
            name::who(&culprit, symbols)
        };
        let causes = rank(explanations(explained), who).causes;
        let wanted: BTreeSet<&NamedCause> = wanted
            .map(|cause| without_place.get(cause).unwrap_or(cause))
            .collect();
        let searched: Vec<&RankedCause> = causes
            .iter()
            .filter(|cause| wanted.contains(&cause.cause))
            .collect();
        let rhythms = searched
            .iter()
            .zip(rhythms(&searched, watched))
            .filter_map(|(cause, rhythm)| {
                let rhythm = rhythm.filter(|rhythm| !is_of_probe(rhythm, plan));
                Some((cause.cause.clone(), rhythm?))
            })
            .collect();
        Self {
            without_place,
            rhythms,
        }
    }

    /// Returns the period of a cause, wherever in the code it was sampled.
    pub(super) fn get(&self, cause: &NamedCause) -> Option<Rhythm> {
        let cause = self.without_place.get(cause).unwrap_or(cause);
        self.rhythms.get(cause).copied()
    }
}

/// Returns whether the period is the period of the probe, or a small multiple of it: without
/// dither, several series take turns.
fn is_of_probe(rhythm: &Rhythm, plan: &ProbePlan) -> bool {
    /// Maximum number of series that take turns: the threads and the work item that a
    /// softirq starts one after the other.
    const MAX_TURNS: f64 = 8.0;
    /// Relative error of the period of a comb.
    const MAX_ERROR: f64 = 0.001;
    let periods = rhythm.period.as_f64() / plan.period_ns.as_f64().max(1.0);
    let whole = periods.round();
    !plan.dither
        && (1.0..=MAX_TURNS).contains(&whole)
        && (periods - whole).abs() <= MAX_ERROR * whole
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use laggard_analyze::causes::Explanation;
    use laggard_model::{Address, Cause, CauseClass, Episode, Nanos};

    use super::*;
    use laggard_made::late::{episode, manifest};

    #[test]
    fn a_culprit_that_is_seen_in_two_places_has_one_rhythm() {
        let line = manifest().lines[0];
        let episodes: Vec<Episode> = (1..=10).map(episode).collect();
        let cause = |number: u64| Cause {
            class: CauseClass::PreemptionOff,
            culprit: Culprit {
                thread: Some("hog".into()),
                // Every other visit elsewhere.
                frame: Some(Address(number % 2)),
                system_call: (number % 2 == 1).then(|| "ioctl".into()),
                ..Culprit::default()
            },
            time_ns: Nanos::from_ms(3),
        };
        let explained: Vec<ExplainedEpisode<'_>> = episodes
            .iter()
            .map(|episode| ExplainedEpisode {
                episode,
                line,
                explanation: Arc::new(Explanation {
                    parts: Vec::new(),
                    causes: vec![cause(episode.number)],
                    passed: Vec::new(),
                }),
            })
            .collect();

        let places = ["hog, in 0x0", "hog, in 0x1, system call ioctl"]
            .map(|who| NamedCause::new(CauseClass::PreemptionOff, Some(who)));
        let (symbols, watched) = (Symbols::default(), Watched::default());
        let plan = manifest().plan;
        let rhythms_of =
            |plan: &ProbePlan| Rhythms::new(&explained, &symbols, places.iter(), &watched, plan);
        let rhythms = rhythms_of(&plan);

        for cause in &places {
            let rhythm = rhythms.get(cause).unwrap();
            assert!(
                rhythm.period.ns().abs_diff(5_000_000_000) < 5_000_000,
                "{rhythm:?}"
            );
            assert_eq!((rhythm.hits, rhythm.due), (10, 10), "{cause:?}");
        }
        // With a check only every 2.5 s, the cause may have been present all the time.
        let seldom = |dither| ProbePlan {
            period_ns: Nanos::from_ms(2_500),
            dither,
            ..plan.clone()
        };
        assert_eq!(rhythms_of(&seldom(false)).get(&places[0]), None);
        assert!(rhythms_of(&seldom(true)).get(&places[0]).is_some());
    }
}
