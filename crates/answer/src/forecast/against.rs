//! What speaks against a level, in words whose times have units.

use std::fmt::{self, Display, Formatter};

use laggard_analyze::forecast::{CauseRefusal, Reason, ReasonWords};
use laggard_model::text::Unit;
use serde::{Serialize, Serializer};

use crate::causes::KnownCauses;

/// What speaks against a level. Serialized in words.
#[derive(Clone, Debug, PartialEq)]
pub enum Against {
    /// Against one of all peaks together.
    Peaks(Reason),
    /// Against one made cause by cause.
    ByCause {
        /// Whose peaks do not allow it, in words; `None`: those of all.
        source: Option<String>,
        /// What speaks against it.
        reason: Reason,
        /// What would make more causes known; empty where nothing would.
        remedy: &'static str,
    },
}

impl Against {
    pub(super) fn by_cause(found: &CauseRefusal, known: &KnownCauses) -> Self {
        let is_unknown = matches!(found.reason, Reason::CausesUnknown { .. });
        Self::ByCause {
            source: found.source.map(|source| known.name(source)),
            reason: found.reason,
            remedy: match found.source {
                None if is_unknown => known.remedy(),
                None | Some(_) => "",
            },
        }
    }

    /// Against a level of all peaks: what it says before its figures and its
    /// remedy.
    pub fn in_short(&self) -> Option<String> {
        match self {
            Self::Peaks(reason) => Some(words(reason).in_short),
            Self::ByCause { .. } => None,
        }
    }

    /// Without the figures of tests, which JSON has beside it: so that the same reads the
    /// same for every service.
    pub(super) fn without_figures(&self) -> String {
        self.told(ReasonWords::without_figure)
    }

    fn told(&self, change: impl Fn(ReasonWords) -> ReasonWords) -> String {
        match self {
            Self::Peaks(reason) => change(words(reason)).to_string(),
            Self::ByCause {
                source,
                reason,
                remedy,
            } => {
                let source = source.as_ref().map(|name| format!("{name}: "));
                format!(
                    "by cause: {}{}{remedy}",
                    source.unwrap_or_default(),
                    change(words(reason))
                )
            }
        }
    }
}

fn words(reason: &Reason) -> ReasonWords {
    reason.words(|ns| Unit::Auto.write(ns))
}

impl Display for Against {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(|words| words))
    }
}

impl Serialize for Against {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_with_its_figure_without_it_and_in_short() {
        let correlated = Against::Peaks(Reason::Correlated { p: 0.0004 });
        let of_one = Against::ByCause {
            source: Some("softirq: (p 1); x".into()),
            reason: Reason::HeavyTail { shape: 0.61 },
            remedy: "",
        };
        let far = Against::Peaks(Reason::TooFar {
            factor: 12.34,
            most: 10.0,
        });

        assert_eq!(
            correlated.to_string(),
            "peaks are correlated (p 0.000); clusters are still joined, or the load varies"
        );
        assert_eq!(
            correlated.without_figures(),
            "peaks are correlated; clusters are still joined, or the load varies"
        );
        assert_eq!(correlated.in_short().unwrap(), "peaks are correlated");
        // A name that looks like a figure stays.
        assert_eq!(
            of_one.without_figures(),
            "by cause: softirq: (p 1); x: the tail is too heavy; record longer or find the cause"
        );
        assert_eq!(of_one.in_short(), None);
        assert_eq!(
            far.to_string(),
            "the horizon is 12.3 times the recording; at most 10 can be forecast"
        );
        assert_eq!(
            far.in_short().unwrap(),
            "the horizon is too many times the recording"
        );
    }
}
