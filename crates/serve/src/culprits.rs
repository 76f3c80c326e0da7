//! Names of culprits as label values, with a limited number of series.
//!
//! The exporter and every Prometheus that scrapes it store each label value. Any user can create
//! threads with new names: 10,000 short-lived threads must not become 10,000 series. A name
//! therefore gets its own series only after it occurred [`MIN_OCCURRENCES`] times, and at most
//! [`MAX_NAMED`] names have one. All other names count as [`OTHER`]. If all are used, a name with
//! much more recent time replaces the name with the least time. Otherwise a culprit that first
//! appears on day 100 would never get a series.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use laggard_model::{CauseClass, Nanos, printable};

/// Label value of all names without their own series.
pub(crate) const OTHER: &str = "other";
/// Maximum number of names with their own series.
pub(crate) const MAX_NAMED: usize = 100;
/// A name gets a series after this number of occurrences.
const MIN_OCCURRENCES: u32 = 3;
/// Maximum number of remembered names without a series.
const MAX_CANDIDATES: usize = 1_000;
/// Maximum length of a name, characters.
const MAX_NAME_LENGTH: usize = 120;
/// A name replaces another only if its time is more than this multiple of the other's time. This
/// limits the number of new series, also if all names have similar times.
const MIN_TIME_RATIO: u64 = 2;
/// Half-life of the times.
const HALF_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Class of causes, and name.
pub(crate) type CulpritKey = (CauseClass, String);

#[derive(Clone, Copy, Debug, Default)]
struct Occurrences {
    times: u32,
    /// Time that the name caused, halved every [`HALF_LIFE`].
    time: Nanos,
}

#[derive(Debug, Eq, PartialEq)]
pub(crate) struct CulpritLabel {
    pub(crate) value: String,
    /// Name whose series ends, because this one replaces it.
    pub(crate) replaced: Option<CulpritKey>,
}

/// Names that have their own series.
#[derive(Debug)]
pub(crate) struct Culprits {
    named: HashMap<CulpritKey, Occurrences>,
    candidates: HashMap<CulpritKey, Occurrences>,
    /// Names in `candidates`, in order of their first occurrence.
    order: VecDeque<CulpritKey>,
    /// Time of the last halving.
    halved: Instant,
}

impl Culprits {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            named: HashMap::new(),
            candidates: HashMap::new(),
            order: VecDeque::new(),
            halved: now,
        }
    }

    /// Counts an occurrence of `who` at `now` that caused `time`, and returns its label value. A
    /// cause without a name has an empty value.
    pub(crate) fn label(
        &mut self,
        class: CauseClass,
        who: Option<&str>,
        time: Nanos,
        now: Instant,
    ) -> CulpritLabel {
        self.decay(now);
        // The name must not contain escape sequences for a terminal that shows the metrics.
        let name = printable(who.unwrap_or_default()).to_string();
        let name: String = name.chars().take(MAX_NAME_LENGTH).collect();
        // Several culprits share these two values.
        if name.is_empty() || name == OTHER {
            return name.into();
        }
        let who = (class, name);
        if let Some(named) = self.named.get_mut(&who) {
            named.time += time;
            return who.1.into();
        }
        let met = self.candidates.entry(who.clone()).or_insert_with(|| {
            self.order.push_back(who.clone());
            Occurrences::default()
        });
        met.times = met.times.saturating_add(1);
        met.time += time;
        let met = *met;
        if met.times >= MIN_OCCURRENCES
            && let Some(replaced) = self.make_room(met.time)
        {
            self.candidates.remove(&who);
            self.order.retain(|other| *other != who);
            self.named.insert(who.clone(), met);
            return CulpritLabel {
                value: who.1,
                replaced,
            };
        }
        if self.order.len() > MAX_CANDIDATES
            && let Some(first) = self.order.pop_front()
        {
            self.candidates.remove(&first);
        }
        OTHER.to_owned().into()
    }

    /// Finds a place for a name that caused `time`. Returns the replaced name, if one was replaced,
    /// or `None` if all places stay taken.
    fn make_room(&mut self, time: Nanos) -> Option<Option<CulpritKey>> {
        if self.named.len() < MAX_NAMED {
            return Some(None);
        }
        let least = self.named.iter().min_by_key(|(who, met)| (met.time, *who));
        let (who, met) = least.map(|(who, met)| (who.clone(), *met))?;
        (time > met.time * MIN_TIME_RATIO).then(|| {
            self.named.remove(&who);
            Some(who)
        })
    }

    /// Halves all times once per [`HALF_LIFE`].
    fn decay(&mut self, now: Instant) {
        while now.saturating_duration_since(self.halved) >= HALF_LIFE {
            self.halved += HALF_LIFE;
            for met in self.named.values_mut().chain(self.candidates.values_mut()) {
                met.time = Nanos::from_ns(met.time.ns() / 2);
            }
        }
    }
}

impl From<String> for CulpritLabel {
    fn from(value: String) -> Self {
        Self {
            value,
            replaced: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const CLASS: CauseClass = CauseClass::HigherPriority;

    #[test]
    fn only_a_recurring_name_gets_a_series() {
        let now = Instant::now();
        let mut culprits = Culprits::new(now);
        let mut label = |name: &str| {
            culprits
                .label(CLASS, Some(name), Nanos::from_us(1), now)
                .value
        };
        let mut last = String::new();
        for number in 0..10_000 {
            let once = label(&format!("job-{number}"));
            assert_eq!(once, OTHER, "number {number}");
            if number % 100 == 0 {
                last = label("rasdaemon");
            }
        }

        assert_eq!(last, "rasdaemon");
        assert!(
            culprits.candidates.len() <= MAX_CANDIDATES && culprits.order.len() <= MAX_CANDIDATES
        );
    }

    #[test]
    fn names_with_equal_times_do_not_replace_each_other() {
        let now = Instant::now();
        let mut culprits = Culprits::new(now);
        let mut given = HashSet::new();
        for number in 0..10_000 {
            for _ in 0..=MIN_OCCURRENCES {
                let name = format!("{number}-{}", "x".repeat(1_000));
                let label = culprits.label(CLASS, Some(&name), Nanos::from_ms(1), now);
                assert_eq!(label.replaced, None);
                given.insert(label.value);
            }
        }

        assert_eq!(given.len(), MAX_NAMED + 1, "and `other`");
        assert!(
            given
                .iter()
                .all(|name| name.chars().count() <= MAX_NAME_LENGTH)
        );
    }

    /// Without replacement, 100 small early culprits hid it forever.
    #[test]
    fn late_name_with_the_most_time_replaces_the_smallest() {
        let now = Instant::now();
        let mut culprits = Culprits::new(now);
        for number in 0..MAX_NAMED as u64 {
            for _ in 0..MIN_OCCURRENCES {
                let time = Nanos::from_us(100 + number);
                culprits.label(CLASS, Some(&format!("early-{number}")), time, now);
            }
        }
        let mut late = || culprits.label(CLASS, Some("late"), Nanos::from_ms(5), now);

        let labels = [late(), late(), late(), late()];

        let values = labels.each_ref().map(|label| &*label.value);
        assert_eq!(values, [OTHER, OTHER, "late", "late"]);
        let leaves = Some((CLASS, "early-0".to_owned()));
        assert_eq!(labels[2].replaced, leaves);
        assert_eq!(culprits.named.len(), MAX_NAMED);
        let again = culprits.label(CLASS, Some("early-0"), Nanos::from_us(100), now);
        assert_eq!(again.value, OTHER);
    }

    #[test]
    fn old_time_decays_and_makes_room() {
        let begin = Instant::now();
        let mut culprits = Culprits::new(begin);
        for number in 0..MAX_NAMED {
            for _ in 0..MIN_OCCURRENCES {
                let name = format!("early-{number}");
                culprits.label(CLASS, Some(&name), Nanos::from_ms(10), begin);
            }
        }
        let mut third = |name: &str, now: Instant| {
            let mut label = || culprits.label(CLASS, Some(name), Nanos::from_ms(5), now);
            [label(), label(), label()].map(|label| label.value)[2].clone()
        };

        assert_eq!(third("same day", begin), OTHER);
        assert_eq!(third("days later", begin + 3 * HALF_LIFE), "days later");
    }

    #[test]
    fn empty_name_and_other_take_no_room() {
        let now = Instant::now();
        let mut culprits = Culprits::new(now);

        let mut escaped = || culprits.label(CLASS, Some("a\u{1b}[2J"), Nanos::from_ms(1), now);
        let labels = [escaped(), escaped(), escaped()];
        assert_eq!(labels[2].value, "a\\x1b[2J");
        let mut culprits = Culprits::new(now);
        for (who, value) in [(None, ""), (Some(""), ""), (Some(OTHER), OTHER)] {
            for _ in 0..=MIN_OCCURRENCES {
                let label = culprits.label(CauseClass::Stolen, who, Nanos::from_ms(1), now);
                assert_eq!(label.value, value);
            }
        }
        assert!(culprits.named.is_empty() && culprits.candidates.is_empty());
    }
}
