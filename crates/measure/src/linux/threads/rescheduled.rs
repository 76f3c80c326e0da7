//! Whether measuring threads keep the scheduling that makes them their service.
//!
//! `chrt`, `renice` or a daemon that does the like can change it while they
//! measure, and they would not know: the collector looks.

use laggard_model::name::line_name;
use laggard_model::{Caveat, CaveatKind, Line, Nanos};

use super::super::scheduling::Scheduling;
use super::super::thread::MeasuringThread;

/// How often is looked: it takes some system calls for each thread.
const EVERY: Nanos = Nanos::from_secs(1);

/// How the measuring threads are scheduled.
#[derive(Debug, Default)]
pub(super) struct Schedulings {
    /// By their place among the threads: what they began with, and what they
    /// were first seen with that is something else.
    threads: Vec<(Option<Scheduling>, Option<Change>)>,
    looked: Nanos,
}

/// A thread was not scheduled as it began.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Change {
    to: Scheduling,
    /// When that was seen.
    at: Nanos,
    /// Whether it was so when last looked.
    lasts: bool,
}

impl Schedulings {
    /// What `threads` have been given.
    pub(super) fn of(threads: &[MeasuringThread]) -> Self {
        let given = threads.iter().map(|one| (Scheduling::of(one.tid), None));
        Self {
            threads: given.collect(),
            looked: Nanos::ZERO,
        }
    }

    /// Looks again, at `now`, unless it has just been done.
    pub(super) fn look_at_times(&mut self, threads: &[MeasuringThread], now: Nanos) {
        if now >= self.looked + EVERY {
            self.look(threads, now);
        }
    }

    /// Looks again, at `now`.
    pub(super) fn look(&mut self, threads: &[MeasuringThread], now: Nanos) {
        self.looked = now;
        let all = self.threads.iter_mut().zip(threads);
        for (thread, one) in all.filter(|(_, one)| !one.is_finished()) {
            if let Some(found) = Scheduling::of(one.tid) {
                note(thread, found, now);
            }
        }
    }

    /// Says which services did not run as such; `began`: when measuring did.
    pub(super) fn caveat(
        &self,
        threads: &[MeasuringThread],
        began: Nanos,
        line_of: impl Fn(&MeasuringThread) -> Option<Line>,
    ) -> Option<Caveat> {
        let changed = self.threads.iter().zip(threads);
        let changed = changed.filter(|(_, one)| one.is_service);
        let mut changed =
            changed.filter_map(|((_, change), one)| Some(((*change)?, line_of(one)?)));
        let (first, line) = changed.next()?;
        Some(words(first, line, changed.count(), began))
    }
}

fn note((given, change): &mut (Option<Scheduling>, Option<Change>), found: Scheduling, at: Nanos) {
    let differs = *given != Some(found);
    match change {
        Some(change) => change.lasts = differs,
        None if differs => {
            *change = Some(Change {
                to: found,
                at,
                lasts: true,
            });
        }
        None => {}
    }
}

fn words(change: Change, line: Line, others: usize, began: Nanos) -> Caveat {
    let others = match others {
        0 => String::new(),
        1 => "; so was another line's".into(),
        count => format!("; so were {count} other lines'"),
    };
    let until = match change.lasts {
        true => "to the end",
        false => "not to the end",
    };
    Caveat::new(
        CaveatKind::Rescheduled,
        format!(
            "the thread of {} on CPU {} was changed to {} while it measured, seen {:.1} s after measuring began and {until}{others}: its latencies are then not that service's",
            line_name(line.service, line.route),
            line.cpu,
            change.to,
            change.at.saturating_sub(began).as_secs_f64(),
        ),
        "leave laggard's threads as they are while it measures (`chrt`, `renice`, daemons that do the same)",
    )
}

#[cfg(test)]
mod tests {
    use laggard_model::{Cpu, Route, Service, Tid};

    use super::*;

    #[test]
    fn a_change_is_remembered_with_when_it_was_seen_also_where_it_is_taken_back() {
        let own = Scheduling::of(Tid(0)).unwrap();
        let mut thread = (None, None);
        let secs = Nanos::from_secs;

        note(&mut thread, own, secs(3));
        assert!(thread.1.is_some_and(|change| change.lasts));
        thread.0 = Some(own);
        note(&mut thread, own, secs(4));

        let change = thread.1.unwrap();
        assert_eq!((change.at, change.lasts), (secs(3), false));
        let line = Line {
            cpu: Cpu(1),
            service: Service::Fifo(90),
            route: Route::Deferred,
        };
        let said = words(change, line, 2, secs(1)).what;
        assert!(
            said.starts_with("the thread of fifo:90 deferred on CPU 1 was changed to SCHED_"),
            "{said}"
        );
        assert!(
            said.contains(
                "seen 2.0 s after measuring began and not to the end; so were 2 other lines'"
            ),
            "{said}"
        );
    }
}
