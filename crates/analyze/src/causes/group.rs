//! Control groups of threads that compete for a CPU: the groups that a quota stopped,
//! and the levels where the weights decide.

use std::cmp::Ordering;
use std::sync::Arc;

use laggard_model::{
    Because, CauseClass, Culprit, Episode, Nanos, SchedEntity, Symbols, Throttle, Tid,
};

use super::context::Thread;
use super::index::EvidenceIndex;
use super::{HashMap, HashSet, Part};

/// Attributes the turn of a thread of equal priority to the control group of the
/// waiting thread, if its CPU quota was used up or its weight decided.
pub(super) fn name_groups(
    parts: &mut [Part],
    episode: &Episode,
    index: &EvidenceIndex<'_>,
    symbols: &Symbols,
) {
    let Some(waiter) = episode.thread else {
        return;
    };
    let Some(own) = symbols.entities.get(&waiter) else {
        return;
    };
    let mut quotas = OwnQuotas::new(waiter, own, index, symbols);
    let only_quota = only_quota(own, symbols);
    let mut weighed_threads: HashMap<(Tid, Arc<str>), Option<WeightEffect>> = HashMap::default();
    for part in parts {
        if part.class == CauseClass::Throttled && part.culprit.group.is_none() {
            part.culprit.group = only_quota;
        }
        if part.class != CauseClass::Equal {
            continue;
        }
        if let Some(throttle) = quotas.stopped(part.slice.from) {
            part.class = CauseClass::Throttled;
            part.culprit = Culprit {
                group: throttle.group,
                ..Culprit::default()
            };
            continue;
        }
        let Some(running) = &part.slice.context.thread else {
            continue;
        };
        // A thread has a part for each of its records, so its text is formatted once.
        let key = (running.tid, running.name.clone());
        let weighed = weighed_threads
            .entry(key)
            .or_insert_with(|| weighed(running, own, symbols));
        match weighed {
            Some(WeightEffect::Lighter { weight, contender }) => {
                part.class = CauseClass::GroupWeight;
                part.culprit = Culprit {
                    contender: Some(contender.clone()),
                    weight: Some(weight.clone()),
                    ..Culprit::default()
                };
            }
            Some(WeightEffect::Shared(because)) => part.culprit.because = Some(*because),
            None => {}
        }
    }
}

/// Returns the group of the waiting thread that has a quota, if it is the only one. The throttling
/// itself may be older than the trace data.
fn only_quota(own: &[SchedEntity], symbols: &Symbols) -> Option<u64> {
    let quotas = symbols.quotas.iter().filter(|(_, quota)| {
        let mut levels = own.iter();
        levels.any(|level| level.group == quota.group)
    });
    let mut groups = quotas.map(|(&group, _)| group);
    groups.next().filter(|_| groups.next().is_none())
}

/// Throttlings by the quotas of groups that contain the waiting thread.
struct OwnQuotas<'a> {
    waiter: Tid,
    index: &'a EvidenceIndex<'a>,
    symbols: &'a Symbols,
    /// In time order.
    throttles: Vec<&'a Throttle>,
    /// For each group, the times when one of its threads was switched in,
    /// ascending. Filled on first use.
    arrivals: HashMap<u64, Vec<Nanos>>,
}

impl<'a> OwnQuotas<'a> {
    fn new(
        waiter: Tid,
        own: &[SchedEntity],
        index: &'a EvidenceIndex<'a>,
        symbols: &'a Symbols,
    ) -> Self {
        let groups: HashSet<&str> = own.iter().map(|level| level.group.as_str()).collect();
        let is_own = |throttle: &&Throttle| {
            let quota = throttle.group.and_then(|group| symbols.quotas.get(&group));
            quota.is_some_and(|quota| groups.contains(quota.group.as_str()))
        };
        let mut throttles: Vec<&Throttle> =
            index.evidence.throttles.iter().filter(is_own).collect();
        throttles.sort_by_key(|throttle| throttle.at_ns);
        Self {
            waiter,
            index,
            symbols,
            throttles,
            arrivals: HashMap::default(),
        }
    }

    /// Returns the quota that stopped the waiting thread together with another thread
    /// of a common group: no thread of the group has run from the throttling to `time`.
    fn stopped(&mut self, time: Nanos) -> Option<&'a Throttle> {
        let next = self
            .throttles
            .partition_point(|throttle| throttle.at_ns <= time);
        let newest = *self.throttles.get(next.checked_sub(1)?)?;
        let group = newest.group?;
        let (waiter, index, symbols) = (self.waiter, self.index, self.symbols);
        let arrivals = self
            .arrivals
            .entry(group)
            .or_insert_with(|| arrivals(waiter, group, index, symbols));
        let first = arrivals.partition_point(|&arrival| arrival <= newest.at_ns);
        let has_run = arrivals.get(first).is_some_and(|&arrival| arrival <= time);
        (!has_run).then_some(newest)
    }
}

/// Returns the times when a thread of `group`, or the waiting thread, was switched
/// in.
fn arrivals(waiter: Tid, group: u64, index: &EvidenceIndex<'_>, symbols: &Symbols) -> Vec<Nanos> {
    let throttles = index.evidence.throttles.iter();
    let stopped = throttles.filter(|throttle| throttle.group == Some(group));
    let mut members: HashSet<Tid> = stopped.map(|throttle| throttle.tid).collect();
    members.insert(waiter);
    if let Some(quota) = symbols.quotas.get(&group) {
        let is_below =
            |levels: &[SchedEntity]| levels.iter().any(|level| level.group == quota.group);
        let below = symbols
            .entities
            .iter()
            .filter(|(_, levels)| is_below(levels));
        members.extend(below.map(|(&tid, _)| tid));
    }
    let switches = index.switches.iter();
    switches
        .filter(|switch| members.contains(&switch.tid))
        .map(|switch| switch.at)
        .collect()
}

/// Effect of control groups on a thread that waits for another of its priority.
enum WeightEffect {
    /// The thread or its group is lighter than the other.
    Lighter {
        /// Deciding group and its weight.
        weight: Arc<str>,
        /// Thread that ran.
        contender: Arc<str>,
    },
    /// The groups are not a disadvantage. The weights of the threads differ, with or without
    /// effect.
    Shared(Because),
}

/// Compares the weights of the waiting thread and of the thread that ran. Returns
/// `None` if neither the weights of the groups nor the weights of the threads differ.
fn weighed(running: &Thread, own: &[SchedEntity], symbols: &Symbols) -> Option<WeightEffect> {
    let other = symbols.entities.get(&running.tid)?;
    let mut levels = own.iter().zip(other);
    // First level below the common groups.
    let (own_level, other_level) =
        levels.find(|(own, other)| own.group.is_empty() || own.group != other.group)?;
    let (own_thread, other_thread) = (own.last()?, other.last()?);
    if own_level.group.is_empty() && other_level.group.is_empty() {
        return match own_thread.weight.cmp(&other_thread.weight) {
            Ordering::Less => Some(WeightEffect::Shared(Because::MoreWeight)),
            Ordering::Equal => None,
            Ordering::Greater => Some(WeightEffect::Shared(Because::LessWeight)),
        };
    }
    let decisive = [own_level, other_level]
        .into_iter()
        .find(|level| !level.group.is_empty())?;
    if own_level.weight < other_level.weight {
        return Some(WeightEffect::Lighter {
            weight: entity_words(decisive).into(),
            contender: format!("{} ({})", running.name, entity_words(other_level)).into(),
        });
    }
    // The nice value alone would give the waiting thread a larger share than the groups
    // do. The nice value of a thread outside all groups counts.
    let is_levelled = !own_level.group.is_empty()
        && own_thread.weight > other_thread.weight
        && u128::from(own_level.weight) * u128::from(other_thread.weight)
            < u128::from(other_level.weight) * u128::from(own_thread.weight);
    is_levelled.then_some(WeightEffect::Shared(Because::NiceInGroup))
}

fn entity_words(entity: &SchedEntity) -> String {
    let SchedEntity { group, setting, .. } = entity;
    if group.is_empty() {
        setting.clone()
    } else {
        format!("{group}, {setting}")
    }
}
