//! Whether measuring threads keep the scheduling that makes them their service.
//!
//! `chrt`, `renice` or a daemon that does the like can change it while they
//! measure, and they would not know. Where programs stamp their wakeups, these
//! compare it at each; the collector looks once a second, too, for where they do
//! not, and for how it was at the end.

use std::sync::atomic::Ordering;

use laggard_model::name::line_name;
use laggard_model::{Caveat, CaveatKind, Line, Nanos};

use super::super::scheduling::Scheduling;
use super::super::thread::MeasuringThread;
use crate::board::{Board, BoardCpu};

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
    pub(super) fn look_at_times(&mut self, threads: &[MeasuringThread], board: &Board, now: Nanos) {
        if now >= self.looked + EVERY {
            self.look(threads, board, now);
        }
    }

    /// Looks again, at `now`.
    pub(super) fn look(&mut self, threads: &[MeasuringThread], board: &Board, now: Nanos) {
        self.looked = now;
        for (thread, one) in self.threads.iter_mut().zip(threads) {
            let (cpu, place) = one.line;
            if one.is_service {
                note_seen(&mut thread.1, board.cpu(cpu.0), place);
            }
            if let Some(found) = Scheduling::of(one.tid).filter(|_| !one.is_finished()) {
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

/// Takes in what the programs saw of the thread of a CPU's line.
fn note_seen(change: &mut Option<Change>, cpu: &BoardCpu, place: usize) {
    let line = &cpu.lines[place];
    let at = Nanos::from_ns(line.other_ns.load(Ordering::Relaxed));
    if at > Nanos::ZERO && change.is_none() {
        *change = Some(Change {
            to: Scheduling::of_board(line.other.load(Ordering::Relaxed)),
            at,
            lasts: false,
        });
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
    let until = if change.lasts {
        "to the end"
    } else {
        "not to the end"
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

    /// As a program has it that saw it at a wakeup.
    #[test]
    fn a_change_that_was_put_back_before_anybody_looked_is_remembered() {
        let board = Board::owned(1, 1);
        let own = Scheduling::of(Tid(0)).unwrap();
        let mut thread = (Some(own), None);

        note_seen(&mut thread.1, board.cpu(0), 2);
        assert_eq!(thread.1, None);
        let line = &board.cpu(0).lines[2];
        let fifo = libc::SCHED_FIFO.cast_unsigned() << 8 | 95;
        line.other.store(fifo, Ordering::Relaxed);
        line.other_ns.store(7_000_000_000, Ordering::Relaxed);
        note_seen(&mut thread.1, board.cpu(0), 2);
        note(&mut thread, own, Nanos::from_secs(8));

        let change = thread.1.unwrap();
        assert_eq!(change.to.to_string(), "SCHED_FIFO with priority 95");
        assert_eq!((change.at, change.lasts), (Nanos::from_secs(7), false));
        assert_eq!(
            Scheduling::of_board(125).to_string(),
            "SCHED_OTHER at nice 5"
        );
    }

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
