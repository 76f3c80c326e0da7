//! Check whether measuring threads keep the scheduling of their service.
//!
//! `chrt`, `renice` or a daemon can change it during the run without notice. If programs stamp
//! the wakeups of a thread, they compare its scheduling at each wakeup. The collector also checks
//! once a second, for the other threads and for the state at the end.

use std::sync::atomic::Ordering;

use laggard_model::name::line_name;
use laggard_model::{Caveat, CaveatKind, Line, Nanos};

use super::super::scheduling::Scheduling;
use super::super::thread::MeasuringThread;
use crate::board::{Board, BoardCpu};

/// Interval between two checks, which take some system calls per thread.
const CHECK_INTERVAL: Nanos = Nanos::from_secs(1);

/// Scheduling of the measuring threads.
#[derive(Debug, Default)]
pub(super) struct Schedulings {
    /// Per thread: the scheduling at its start, and the first change that was seen.
    threads: Vec<(Option<Scheduling>, Option<Change>)>,
    checked: Nanos,
}

/// Change of a thread's scheduling.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Change {
    to: Scheduling,
    /// Time when the change was seen.
    at: Nanos,
    /// Whether the change was present at the last check.
    lasts: bool,
}

impl Schedulings {
    /// Reads the current scheduling of `threads`.
    pub(super) fn read(threads: &[MeasuringThread]) -> Self {
        let given = threads
            .iter()
            .map(|thread| (Scheduling::read(thread.tid), None));
        Self {
            threads: given.collect(),
            checked: Nanos::ZERO,
        }
    }

    /// Checks again at `now`, unless the last check was recent.
    pub(super) fn check_if_due(&mut self, threads: &[MeasuringThread], board: &Board, now: Nanos) {
        if now >= self.checked + CHECK_INTERVAL {
            self.check(threads, board, now);
        }
    }

    /// Checks again at `now`.
    pub(super) fn check(&mut self, threads: &[MeasuringThread], board: &Board, now: Nanos) {
        self.checked = now;
        for (thread, measuring) in self.threads.iter_mut().zip(threads) {
            let (cpu, place) = measuring.line;
            if measuring.is_service {
                note_change_on_board(&mut thread.1, board.cpu(cpu.0), place);
            }
            if let Some(current) =
                Scheduling::read(measuring.tid).filter(|_| !measuring.is_finished())
            {
                note(thread, current, now);
            }
        }
    }

    /// Returns the warning that names the services that did not keep their scheduling. `began` is
    /// the start of the measurement.
    pub(super) fn caveat(
        &self,
        threads: &[MeasuringThread],
        began: Nanos,
        line_of: impl Fn(&MeasuringThread) -> Option<Line>,
    ) -> Option<Caveat> {
        let changed = self.threads.iter().zip(threads);
        let changed = changed.filter(|(_, thread)| thread.is_service);
        let mut changed =
            changed.filter_map(|((_, change), thread)| Some(((*change)?, line_of(thread)?)));
        let (first, line) = changed.next()?;
        Some(words(first, line, changed.count(), began))
    }
}

/// Records a change that the programs saw in the thread of a CPU's line.
fn note_change_on_board(change: &mut Option<Change>, cpu: &BoardCpu, place: usize) {
    let line = &cpu.lines[place];
    let time = Nanos::from_ns(line.other_ns.load(Ordering::Relaxed));
    if time > Nanos::ZERO && change.is_none() {
        *change = Some(Change {
            to: Scheduling::from_board(line.other.load(Ordering::Relaxed)),
            at: time,
            lasts: false,
        });
    }
}

fn note(
    (given, change): &mut (Option<Scheduling>, Option<Change>),
    current: Scheduling,
    time: Nanos,
) {
    let differs = *given != Some(current);
    match change {
        Some(change) => change.lasts = differs,
        None if differs => {
            *change = Some(Change {
                to: current,
                at: time,
                lasts: true,
            });
        }
        None => {}
    }
}

fn words(change: Change, line: Line, others: usize, began: Nanos) -> Caveat {
    let others = match others {
        0 => String::new(),
        1 => "; so was the thread of another series".into(),
        count => format!("; so were the threads of {count} other series"),
    };
    let until = if change.lasts {
        "until the end"
    } else {
        "not until the end"
    };
    Caveat::new(
        CaveatKind::Rescheduled,
        format!(
            "the scheduling of thread {} on CPU {} was changed to {} during the measurement, seen {:.1} s after the start and {until}{others}; its latencies are then not latencies of this service",
            line_name(line.service, line.route),
            line.cpu,
            change.to,
            change.at.saturating_sub(began).as_secs_f64(),
        ),
        "do not change laggard's threads during the measurement (`chrt`, `renice`, daemons that do the same)",
    )
}

#[cfg(test)]
mod tests {
    use laggard_model::{Cpu, Route, Service, Tid};

    use super::*;

    /// A program stores the change that it sees at a wakeup.
    #[test]
    fn change_that_was_reverted_before_the_check_is_remembered() {
        let board = Board::owned(1, 1);
        let own = Scheduling::read(Tid(0)).unwrap();
        let mut thread = (Some(own), None);

        note_change_on_board(&mut thread.1, board.cpu(0), 2);
        assert_eq!(thread.1, None);
        let line = &board.cpu(0).lines[2];
        let fifo = libc::SCHED_FIFO.cast_unsigned() << 8 | 95;
        line.other.store(fifo, Ordering::Relaxed);
        line.other_ns.store(7_000_000_000, Ordering::Relaxed);
        note_change_on_board(&mut thread.1, board.cpu(0), 2);
        note(&mut thread, own, Nanos::from_secs(8));

        let change = thread.1.unwrap();
        assert_eq!(change.to.to_string(), "SCHED_FIFO with priority 95");
        assert_eq!((change.at, change.lasts), (Nanos::from_secs(7), false));
        assert_eq!(
            Scheduling::from_board(125).to_string(),
            "SCHED_OTHER at nice 5"
        );
    }

    #[test]
    fn reverted_change_is_remembered_with_its_time() {
        let own = Scheduling::read(Tid(0)).unwrap();
        let mut thread = (None, None);
        let secs = Nanos::from_secs;

        note(&mut thread, own, secs(3));
        assert!(thread.1.is_some_and(|change| change.lasts));
        thread.0 = Some(own);
        note(&mut thread, own, secs(4));

        let change = thread.1.unwrap();
        assert_eq!((change.at, change.lasts), (secs(3), false));
        let line = Line::new(Cpu(1), Service::Fifo(90), Route::Deferred);
        let text = words(change, line, 2, secs(1)).what;
        assert!(
            text.starts_with(
                "the scheduling of thread fifo:90 deferred on CPU 1 was changed to SCHED_"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "seen 2.0 s after the start and not until the end; so were the threads of 2 other series"
            ),
            "{text}"
        );
    }
}
