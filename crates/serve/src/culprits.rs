//! Names as label values, so that there are never more than so many.
//!
//! A label value is kept by the exporter and by every Prometheus that scrapes it.
//! Names of threads come from whoever runs something: 10,000 short-lived ones must
//! not become 10,000 series. So a name has a series of its own only once it was
//! met several times, and only so many names do; all others are [`OTHER`]. Where all
//! places are taken, who has taken much more time of late gives its place to whom has
//! taken least: else a culprit of the hundredth day would never have a name.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use laggard_model::{CauseClass, Nanos, printable};

/// What those without a series of their own are counted as.
pub(crate) const OTHER: &str = "other";
/// How many names have a series of their own.
pub(crate) const MOST: usize = 100;
/// How often a name is met before it has one.
const FAMILIAR: u32 = 3;
/// How many names are remembered that have none yet.
const MET: usize = 1_000;
/// Letters of a name, at most.
const LONGEST: usize = 120;
/// A name takes the place of another when it has taken more than so many times its
/// time: new series are few, also where all are alike.
const MUCH_MORE: u64 = 2;
/// After so long, time that was taken counts half.
const HALF_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A class of causes, and who.
pub(crate) type Who = (CauseClass, String);

/// What is known of a name.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    times: u32,
    /// What it took of late.
    time: Nanos,
}

/// The label value for a name.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct CulpritLabel {
    pub(crate) value: String,
    /// Who has no series any more from now on.
    pub(crate) instead_of: Option<Who>,
}

/// Which names have a series of their own.
#[derive(Debug)]
pub(crate) struct Culprits {
    known: HashMap<Who, Met>,
    met: HashMap<Who, Met>,
    /// Those of `met`, the one that was first met first.
    order: VecDeque<Who>,
    /// When time that was taken last became half.
    halved: Instant,
}

impl Culprits {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            known: HashMap::new(),
            met: HashMap::new(),
            order: VecDeque::new(),
            halved: now,
        }
    }

    /// The label value for `who`, who was met once more at `now`, and took `time`. A
    /// cause that needs no name has an empty one.
    pub(crate) fn label(
        &mut self,
        class: CauseClass,
        who: Option<&str>,
        time: Nanos,
        now: Instant,
    ) -> CulpritLabel {
        self.forget(now);
        // A terminal that shows the metrics must not obey a name.
        let name = printable(who.unwrap_or_default()).to_string();
        let name: String = name.chars().take(LONGEST).collect();
        // These two are of everybody.
        if name.is_empty() || name == OTHER {
            return name.into();
        }
        let who = (class, name);
        if let Some(known) = self.known.get_mut(&who) {
            known.time += time;
            return who.1.into();
        }
        let met = self.met.entry(who.clone()).or_insert_with(|| {
            self.order.push_back(who.clone());
            Met::default()
        });
        met.times = met.times.saturating_add(1);
        met.time += time;
        let met = *met;
        if met.times >= FAMILIAR
            && let Some(instead_of) = self.place_for(met.time)
        {
            self.met.remove(&who);
            self.order.retain(|other| *other != who);
            self.known.insert(who.clone(), met);
            return CulpritLabel {
                value: who.1,
                instead_of,
            };
        }
        if self.order.len() > MET
            && let Some(first) = self.order.pop_front()
        {
            self.met.remove(&first);
        }
        OTHER.to_owned().into()
    }

    /// Makes room for who took `time`: by whose leave, if by anybody's; `None`: there
    /// is none.
    fn place_for(&mut self, time: Nanos) -> Option<Option<Who>> {
        if self.known.len() < MOST {
            return Some(None);
        }
        let least = self.known.iter().min_by_key(|(who, met)| (met.time, *who));
        let (who, met) = least.map(|(who, met)| (who.clone(), *met))?;
        (time > met.time * MUCH_MORE).then(|| {
            self.known.remove(&who);
            Some(who)
        })
    }

    /// Has time that was taken long ago count less.
    fn forget(&mut self, now: Instant) {
        while now.saturating_duration_since(self.halved) >= HALF_AFTER {
            self.halved += HALF_AFTER;
            for met in self.known.values_mut().chain(self.met.values_mut()) {
                met.time = Nanos::from_ns(met.time.ns() / 2);
            }
        }
    }
}

impl From<String> for CulpritLabel {
    fn from(value: String) -> Self {
        Self {
            value,
            instead_of: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const CLASS: CauseClass = CauseClass::HigherPriority;

    #[test]
    fn who_is_met_again_has_a_name_and_ten_thousand_who_are_not_have_none() {
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
        assert!(culprits.met.len() <= MET && culprits.order.len() <= MET);
    }

    #[test]
    fn no_more_than_so_many_names_are_ever_given_to_those_who_are_alike() {
        let now = Instant::now();
        let mut culprits = Culprits::new(now);
        let mut given = HashSet::new();
        for number in 0..10_000 {
            for _ in 0..=FAMILIAR {
                let name = format!("{number}-{}", "x".repeat(1_000));
                let label = culprits.label(CLASS, Some(&name), Nanos::from_ms(1), now);
                assert_eq!(label.instead_of, None);
                given.insert(label.value);
            }
        }

        assert_eq!(given.len(), MOST + 1, "and `other`");
        assert!(given.iter().all(|name| name.chars().count() <= LONGEST));
    }

    /// A hundred small ones that came first hid it for ever.
    #[test]
    fn who_comes_last_and_takes_most_has_a_name_and_who_took_least_has_none() {
        let now = Instant::now();
        let mut culprits = Culprits::new(now);
        for number in 0..MOST as u64 {
            for _ in 0..FAMILIAR {
                let time = Nanos::from_us(100 + number);
                culprits.label(CLASS, Some(&format!("early-{number}")), time, now);
            }
        }
        let mut late = || culprits.label(CLASS, Some("late"), Nanos::from_ms(5), now);

        let labels = [late(), late(), late(), late()];

        let values = labels.each_ref().map(|label| &*label.value);
        assert_eq!(values, [OTHER, OTHER, "late", "late"]);
        let leaves = Some((CLASS, "early-0".to_owned()));
        assert_eq!(labels[2].instead_of, leaves);
        assert_eq!(culprits.known.len(), MOST);
        let again = culprits.label(CLASS, Some("early-0"), Nanos::from_us(100), now);
        assert_eq!(again.value, OTHER);
    }

    #[test]
    fn what_was_taken_days_ago_keeps_no_place_from_who_takes_something_now() {
        let begin = Instant::now();
        let mut culprits = Culprits::new(begin);
        for number in 0..MOST {
            for _ in 0..FAMILIAR {
                let name = format!("early-{number}");
                culprits.label(CLASS, Some(&name), Nanos::from_ms(10), begin);
            }
        }
        let mut third = |name: &str, now: Instant| {
            let mut label = || culprits.label(CLASS, Some(name), Nanos::from_ms(5), now);
            [label(), label(), label()].map(|label| label.value)[2].clone()
        };

        assert_eq!(third("same day", begin), OTHER);
        assert_eq!(third("days later", begin + 3 * HALF_AFTER), "days later");
    }

    #[test]
    fn who_needs_no_name_or_is_called_as_all_others_takes_no_place() {
        let now = Instant::now();
        let mut culprits = Culprits::new(now);

        let mut escaped = || culprits.label(CLASS, Some("a\u{1b}[2J"), Nanos::from_ms(1), now);
        let labels = [escaped(), escaped(), escaped()];
        assert_eq!(labels[2].value, "a\\x1b[2J");
        let mut culprits = Culprits::new(now);
        for (who, value) in [(None, ""), (Some(""), ""), (Some(OTHER), OTHER)] {
            for _ in 0..=FAMILIAR {
                let label = culprits.label(CauseClass::Stolen, who, Nanos::from_ms(1), now);
                assert_eq!(label.value, value);
            }
        }
        assert!(culprits.known.is_empty() && culprits.met.is_empty());
    }
}
