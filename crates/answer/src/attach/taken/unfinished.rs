//! Causes of the time of a cycle that did not end.

use laggard_model::{Cpu, Evidence, Names, Nanos, Stage, WatchedThread, WokenBy};

use super::{AttachTaken, Course, CycleTime};
use crate::attach::cycle::UnfinishedCycle;

/// Returns the causes of the time of a cycle that had not ended at `end`, largest first.
pub(in crate::attach) fn unfinished_taken(
    thread: &WatchedThread,
    cycle: &UnfinishedCycle,
    end: Nanos,
    evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
    names: &mut dyn Names,
) -> Vec<AttachTaken> {
    let mut time = CycleTime::new(thread, thread.policy, &evidence, names);
    let course = Course {
        before: &cycle.before,
        parts: &cycle.parts,
        successor: None,
    };
    let from = time.course(&course, cycle.origin);
    match cycle.last {
        Some(last) => {
            let since = from.max(last.origin);
            let running = last.running.unwrap_or(end).max(since);
            if let Some(ended) = cycle.parts.last() {
                time.wait(ended, (last.woken, last.cpu), (from, since), &[]);
            }
            time.explain(
                time.service,
                last.cpu,
                since,
                &[(Stage::Waking, since), (Stage::Running, running)],
            );
            time.run(last.cpu, running, end);
        }
        None => {
            if let Some(ended) = cycle.parts.last() {
                time.wait(ended, (WokenBy::Interrupt, ended.cpu), (from, end), &[]);
            }
        }
    }
    time.sorted()
}
