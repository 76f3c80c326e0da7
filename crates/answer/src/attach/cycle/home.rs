//! Home wait: the wait site where a thread's cycles start and end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use laggard_model::{Nanos, ThreadActivation, WaitSite};

use super::site::{SiteKey, WaitKind, is_event_loop};
use crate::attach::period::period;

/// Sleeps that a decision considers, the newest.
const MAX_SLEEPS: usize = 128;
/// A site with fewer wakes is not known to be periodic.
const MIN_PERIODIC: usize = 8;
/// Without a period, a home wait has at least this share of the sleeps that can be one.
const MIN_SHARE: f64 = 0.8;

/// Share of the sleeps that a site with absolute times has at least, if no site is periodic.
const MIN_TIMED_SHARE: f64 = 0.2;

/// An event loop has more than this many times the sleeps of a callback in it.
const LOOP_FACTOR: usize = 2;

/// Home wait of a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::attach) enum Home {
    /// Not decided yet.
    Undecided,
    /// Each sleep ends a unit: threads that hand over to each other, pools.
    None,
    /// Cycles end with this wait.
    At(SiteKey, WaitSite),
}

/// Sleep of a thread, and when the wake that ended it was due.
#[derive(Clone, Copy, Debug)]
struct Sleep {
    key: SiteKey,
    site: WaitSite,
    origin: Nanos,
    length: Nanos,
}

#[derive(Debug)]
struct SiteSleeps {
    site: WaitSite,
    origins: Vec<Nanos>,
    length: Nanos,
}

/// Sleeps of a thread. They determine its home wait.
#[derive(Debug, Default)]
pub(in crate::attach) struct Sleeps {
    newest: VecDeque<Sleep>,
    /// The wait that ended the last activation, and when it started.
    last: Option<(SiteKey, WaitSite, Nanos)>,
    total: usize,
}

impl Sleeps {
    /// Adds an activation: the wake that starts it ended the sleep before.
    pub(in crate::attach) fn add(&mut self, activation: &ThreadActivation) {
        if let Some((key, site, since)) = self.last.take()
            && activation.start_seen
        {
            if self.newest.len() == MAX_SLEEPS {
                self.newest.pop_front();
            }
            self.total += 1;
            self.newest.push_back(Sleep {
                key,
                site,
                origin: activation.origin,
                length: activation.waking.saturating_sub(since),
            });
        }
        self.last = SiteKey::new(activation).map(|key| (key, activation.site, activation.done));
    }

    /// Number of observed sleeps.
    pub(in crate::attach) const fn total(&self) -> usize {
        self.total
    }

    /// Forgets the site of the last sleep: records after it were lost.
    pub(in crate::attach) fn forget_last(&mut self) {
        self.last = None;
    }

    /// Returns whether all newest sleeps are waits for locks and conditions.
    pub(super) fn are_for_locks(&self) -> bool {
        self.newest
            .iter()
            .all(|sleep| matches!(sleep.key.kind, WaitKind::Lock | WaitKind::Condition))
    }

    /// Returns whether the thread nearly always sleeps for or until a time, but not periodically. The
    /// sleeps may be between and within its cycles, or before its first cycle.
    pub(super) fn is_irregular(&self) -> bool {
        const MIN_SLEEPS: usize = 4;
        let mut origins: BTreeMap<SiteKey, Vec<Nanos>> = BTreeMap::new();
        let is_timed =
            |sleep: &&Sleep| matches!(sleep.key.kind, WaitKind::SleepFor | WaitKind::SleepUntil);
        for sleep in self.newest.iter().filter(is_timed) {
            origins.entry(sleep.key).or_default().push(sleep.origin);
        }
        let total: usize = origins.values().map(Vec::len).sum();
        total >= MIN_SLEEPS
            && total as f64 >= MIN_SHARE * self.newest.len() as f64
            && origins.values().all(|origins| period(origins).is_none())
    }

    /// Returns the home wait: the site whose wakes carry the period, otherwise one with sleeps
    /// until an absolute time (a thread that is often late may lack a regular period), otherwise
    /// the site where the thread nearly always sleeps. `is_final`: decide with the sleeps until
    /// now.
    pub(in crate::attach) fn home(&self, is_final: bool) -> Home {
        let mut sites: BTreeMap<SiteKey, SiteSleeps> = BTreeMap::new();
        for sleep in self
            .newest
            .iter()
            .filter(|sleep| sleep.key.kind.can_be_home())
        {
            let of_site = sites.entry(sleep.key).or_insert_with(|| SiteSleeps {
                site: sleep.site,
                origins: Vec::new(),
                length: Nanos::ZERO,
            });
            of_site.origins.push(sleep.origin);
            of_site.length += sleep.length;
        }
        let is_periodic = |sleeps: &SiteSleeps| {
            sleeps.origins.len() >= MIN_PERIODIC && period(&sleeps.origins).is_some()
        };
        // Timers that expire in an event loop: a sleep between them, of whatever kind, is in a
        // callback of the loop.
        let slept = sites.values().map(|sleeps| sleeps.length).max();
        let event_loop = sites.iter().find(|(_, sleeps)| {
            let is_longest = Some(sleeps.length) == slept;
            let count = sleeps.origins.len();
            let others = sites.values().filter(|other| other.site != sleeps.site);
            let most = others.map(|other| other.origins.len()).max();
            let is_most = most.is_none_or(|most| count > LOOP_FACTOR * most);
            is_event_loop(&sleeps.site) && is_longest && is_most
        });
        if let Some((key, sleeps)) = event_loop {
            return if is_final {
                Home::At(*key, sleeps.site)
            } else {
                Home::Undecided
            };
        }
        // A cycle with a lock or a short sleep in it has several sites with its period.
        let periodic = sites
            .iter()
            .filter(|(_, sleeps)| is_periodic(sleeps))
            .min_by_key(|(key, sleeps)| (key.kind.rank(), Reverse(sleeps.length)));
        if let Some((key, sleeps)) = periodic
            && (is_final || key.kind.is_sure())
        {
            return Home::At(*key, sleeps.site);
        }
        if !is_final {
            return Home::Undecided;
        }
        let total: usize = sites.values().map(|sleeps| sleeps.origins.len()).sum();
        let has_times = |key: &SiteKey, sleeps: &SiteSleeps| {
            let count = sleeps.origins.len();
            key.kind.is_sure()
                && count >= MIN_PERIODIC
                && count as f64 >= MIN_TIMED_SHARE * total as f64
        };
        let timed = sites
            .iter()
            .filter(|(key, sleeps)| has_times(key, sleeps))
            .max_by_key(|(_, sleeps)| sleeps.origins.len());
        if let Some((key, sleeps)) = timed {
            return Home::At(*key, sleeps.site);
        }
        let most = sites.iter().max_by_key(|(_, sleeps)| sleeps.origins.len());
        match most {
            Some((key, sleeps)) if sleeps.origins.len() as f64 >= MIN_SHARE * total as f64 => {
                Home::At(*key, sleeps.site)
            }
            _ => Home::None,
        }
    }
}
