//! The rhythms of culprits, each looked for once.
//!
//! One culprit can have several rows in the ranking, by the place in the code
//! that samples showed: each has some of its visits only, and a part of a comb
//! looks like one of twice the period. So the search is over all places.

use std::collections::BTreeMap;

use laggard_analyze::causes::{Explanation, RankedCause, Rhythm, Signature, rank, rhythm};
use laggard_model::{Episode, Line, Symbols};

use super::words;

/// A signature without its place, what has it, and its rhythm if looked for.
#[derive(Debug)]
pub(super) struct Rhythms {
    anywhere: BTreeMap<Signature, Signature>,
    causes: BTreeMap<Signature, RankedCause>,
    found: BTreeMap<Signature, Option<Rhythm>>,
}

impl Rhythms {
    pub(super) fn new(explained: &[(&Episode, Line, Explanation)], symbols: &Symbols) -> Self {
        let mut anywhere = BTreeMap::new();
        let all = explained.iter().flat_map(|(.., all)| &all.causes);
        for cause in all {
            let signature = |who| Signature {
                class: cause.class,
                who,
            };
            anywhere.insert(
                signature(words::who(&cause.culprit, symbols)),
                signature(words::who_anywhere(&cause.culprit, symbols)),
            );
        }
        let causes = rank(
            explained.iter().map(|(episode, _, all)| (*episode, all)),
            |culprit| words::who_anywhere(culprit, symbols),
        )
        .causes;
        Self {
            anywhere,
            causes: causes
                .into_iter()
                .map(|cause| (cause.signature.clone(), cause))
                .collect(),
            found: BTreeMap::new(),
        }
    }

    /// The rhythm of the culprit with this signature, wherever it was seen.
    pub(super) fn of(&mut self, signature: &Signature) -> Option<Rhythm> {
        let anywhere = self.anywhere.get(signature)?;
        if !self.found.contains_key(anywhere) {
            let found = self.causes.get(anywhere).and_then(rhythm);
            self.found.insert(anywhere.clone(), found);
        }
        *self.found.get(anywhere)?
    }
}

#[cfg(test)]
mod tests {
    use laggard_analyze::causes::Part;
    use laggard_model::{Address, Cause, CauseClass, Culprit, Nanos};

    use super::super::tests::{episode, manifest};
    use super::*;

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
                ..Culprit::default()
            },
            time_ns: Nanos::from_ms(3),
        };
        let explained: Vec<(&Episode, Line, Explanation)> = episodes
            .iter()
            .map(|one| {
                let explanation = Explanation {
                    parts: Vec::<Part>::new(),
                    causes: vec![cause(one.number)],
                };
                (one, line, explanation)
            })
            .collect();

        let mut rhythms = Rhythms::new(&explained, &Symbols::default());

        for who in ["hog, in 0x0", "hog, in 0x1"] {
            let signature = Signature {
                class: CauseClass::PreemptionOff,
                who: Some(who.into()),
            };
            let found = rhythms.of(&signature).unwrap();
            assert!(
                found.period.ns().abs_diff(5_000_000_000) < 5_000_000,
                "{found:?}"
            );
            assert_eq!((found.hits, found.due), (10, 10), "{who}");
        }
    }
}
