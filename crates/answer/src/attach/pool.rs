//! Pools of threads: each job wakes one of the threads.

use std::collections::{BTreeMap, BTreeSet};

use laggard_model::{Nanos, WokenWay};

use super::AttachCollector;
use super::cycle::Home;
use super::line::LineState;
use super::period::Wake;

/// Minimum number of wakeups that are compared.
const MIN_WAKEUPS: usize = 4;
/// Minimum share of the wakeups at the same time as a wakeup of another thread, if one event wakes
/// all threads.
const MIN_COMMON_SHARE: f64 = 0.5;
/// Wakeups by one event are at most the period divided by this number apart.
const COMMON: u64 = 32;

impl AttachCollector {
    /// Returns the threads that wait for the same object as other threads of their process, and
    /// that are woken at other times. Their period is the period of the jobs times the number of
    /// threads.
    pub(super) fn pools(&self) -> BTreeSet<u32> {
        let mut groups: BTreeMap<_, Vec<(u32, &LineState)>> = BTreeMap::new();
        for (&(number, source), line) in &self.lines {
            let Some(state) = self.threads.get(&number) else {
                continue;
            };
            if let Home::At(key, _) = state.builder.home()
                && key.has_object()
                && source != WokenWay::Timer
            {
                let group = groups.entry((state.thread.process, key, source));
                group.or_default().push((number, line));
            }
        }
        let groups = groups.into_values();
        let pooled = groups.flat_map(|group| {
            let others = |number: u32| {
                let others = group.iter().filter(move |(other, _)| *other != number);
                others.map(|(_, line)| *line).collect::<Vec<_>>()
            };
            let is_pooled =
                |&&(number, line): &&(u32, &LineState)| takes_turns(line, &others(number));
            let numbers = group.iter().filter(is_pooled).map(|(number, _)| *number);
            numbers.collect::<Vec<_>>()
        });
        pooled.collect()
    }
}

/// Returns whether other threads are woken while this one sleeps, and not at the same time.
fn takes_turns(line: &LineState, others: &[&LineState]) -> bool {
    let Some(period) = line.period() else {
        return false;
    };
    let near = Nanos::from_ns(period.ns() / COMMON);
    let (mut compared, mut common) = (0, 0);
    for time in line.newest.iter().map(|wake| wake.origin) {
        let is_within = |other: &&LineState| {
            let (first, last) = (other.newest.front(), other.newest.back());
            first.is_some_and(|first| first.origin <= time)
                && last.is_some_and(|last| time <= last.origin)
        };
        if !others.iter().any(is_within) {
            continue;
        }
        compared += 1;
        let mut wakeups = others.iter().flat_map(|other| &other.newest);
        let is_near = |other: &Wake| other.origin <= time + near && time <= other.origin + near;
        common += usize::from(wakeups.any(is_near));
    }
    compared >= MIN_WAKEUPS && (common as f64) < MIN_COMMON_SHARE * compared as f64
}
