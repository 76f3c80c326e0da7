//! Names as label values, so that there are never more than so many.
//!
//! A label value is kept by the exporter and by every Prometheus that scrapes it.
//! Names of threads come from whoever runs something: 10,000 short-lived ones must
//! not become 10,000 series. So a name has a series of its own only once it was
//! met several times, and only so many names do; all others are [`OTHER`].

use std::collections::{HashMap, HashSet, VecDeque};

use laggard_model::CauseClass;

/// What those without a series of their own are counted as.
pub(super) const OTHER: &str = "other";
/// How many names have a series of their own.
pub(super) const MOST: usize = 100;
/// How often a name is met before it has one.
const FAMILIAR: u32 = 3;
/// How many names are remembered that have none yet.
const MET: usize = 1_000;
/// Letters of a name, at most.
const LONGEST: usize = 120;

/// A class of causes, and who.
type Who = (CauseClass, String);

/// Which names have a series of their own.
#[derive(Debug, Default)]
pub(super) struct Culprits {
    known: HashSet<Who>,
    met: HashMap<Who, u32>,
    /// Those of `met`, the one that was first met first.
    order: VecDeque<Who>,
}

impl Culprits {
    /// The label value for `who`, who was met once more. A cause that needs no
    /// name has an empty one.
    pub(super) fn label(&mut self, class: CauseClass, who: Option<&str>) -> String {
        let Some(name) = who else {
            return String::new();
        };
        let who = (class, name.chars().take(LONGEST).collect::<String>());
        if self.known.contains(&who) {
            return who.1;
        }
        if self.known.len() >= MOST {
            return OTHER.into();
        }
        let times = self.met.entry(who.clone()).or_insert_with(|| {
            self.order.push_back(who.clone());
            0
        });
        *times += 1;
        if *times >= FAMILIAR {
            self.met.remove(&who);
            self.order.retain(|other| *other != who);
            self.known.insert(who.clone());
            return who.1;
        }
        if self.order.len() > MET
            && let Some(first) = self.order.pop_front()
        {
            self.met.remove(&first);
        }
        OTHER.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_met_again_has_a_name_and_ten_thousand_who_are_not_have_none() {
        let mut culprits = Culprits::default();
        let class = CauseClass::HigherPriority;
        let mut last = String::new();
        for number in 0..10_000 {
            let once = culprits.label(class, Some(&format!("job-{number}")));
            assert_eq!(once, OTHER, "number {number}");
            if number % 100 == 0 {
                last = culprits.label(class, Some("rasdaemon"));
            }
        }

        assert_eq!(last, "rasdaemon");
        assert!(culprits.met.len() <= MET && culprits.order.len() <= MET);
    }

    #[test]
    fn no_more_than_so_many_names_are_ever_given() {
        let mut culprits = Culprits::default();
        let mut given = HashSet::new();
        for number in 0..10_000 {
            for _ in 0..=FAMILIAR {
                let name = format!("{number}-{}", "x".repeat(1_000));
                given.insert(culprits.label(CauseClass::Softirq, Some(&name)));
            }
        }

        assert_eq!(given.len(), MOST + 1, "and `other`");
        assert!(given.iter().all(|name| name.chars().count() <= LONGEST));
    }

    #[test]
    fn a_cause_that_needs_no_name_has_an_empty_one() {
        assert_eq!(Culprits::default().label(CauseClass::Stolen, None), "");
    }
}
