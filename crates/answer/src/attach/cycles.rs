//! Cycles that a program marks itself.
//!
//! A marked cycle starts in an activation of its thread. It is due when that activation was
//! due. It may end in a later activation, because it may wait in the middle.

use std::collections::VecDeque;

use laggard_model::{Histogram, MarkKind, Nanos, ThreadActivation, ThreadMark, Tid};
use schemars::JsonSchema;
use serde::Serialize;

use super::row::AttachFigures;

/// Activations that are kept per thread, after their marks are processed: marks that are
/// made during a look come with the next one.
const MAX_SPANS: usize = 1_024;
/// Maximum number of marks that wait for their activation, per thread.
const MAX_WAITING: usize = 65_536;

#[derive(Clone, Copy, Debug)]
struct ActivationSpan {
    origin: Nanos,
    /// Earliest time of its marks: when it ran.
    from: Nanos,
    done: Nanos,
}

/// Current cycle of a thread.
#[derive(Clone, Copy, Debug)]
struct OpenCycle {
    number: u64,
    begun: Nanos,
    /// `None`: its wakeup was not seen.
    due: Option<Nanos>,
}

#[derive(Debug, Default)]
pub(super) struct MarkedCycles {
    spans: VecDeque<ActivationSpan>,
    waiting: VecDeque<ThreadMark>,
    open: Option<OpenCycle>,
    last_number: Option<u64>,
    /// Number of lost marks before the last processed mark; `None`: it is the first.
    lost_before: Option<u64>,
    begins: Histogram,
    takes: Histogram,
    responses: Histogram,
    /// Responses without a known deadline.
    unjudged: Vec<Nanos>,
    deadline: Option<Nanos>,
    misses: u64,
    cycles: u64,
    without_wake: u64,
    unpaired: u64,
    cut: u64,
    skipped: u64,
    dropped: u64,
}

impl MarkedCycles {
    pub(super) fn add_activation(&mut self, thread_activation: &ThreadActivation) {
        // It may have been due before the activation before it had ended.
        let before = self.spans.back().map_or(Nanos::ZERO, |last| last.done);
        self.spans.push_back(ActivationSpan {
            origin: thread_activation.origin,
            from: if thread_activation.run_seen {
                thread_activation.running
            } else {
                thread_activation.origin.max(before)
            },
            done: thread_activation.done,
        });
        // Before the span is dropped: one look may have many activations.
        self.catch_up(thread_activation.done);
        if self.spans.len() > MAX_SPANS {
            self.spans.pop_front();
        }
    }

    pub(super) fn add_mark(&mut self, mark: ThreadMark) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(ThreadMark {
                lost_before: mark.lost_before.saturating_add(self.dropped),
                ..mark
            });
        } else {
            self.dropped += 1;
        }
    }

    /// Processes the marks whose activation is known. `is_final`: processes all marks.
    pub(super) fn settle(&mut self, deadline: Option<Nanos>, is_final: bool) {
        if deadline.is_some() && self.deadline != deadline {
            self.deadline = deadline;
            self.misses = 0;
        }
        let last = self.spans.back().map(|last| last.done);
        if is_final {
            self.catch_up(Nanos::MAX);
            self.cut += u64::from(self.open.take().is_some());
        } else {
            self.catch_up(last.unwrap_or(Nanos::ZERO));
        }
        if let Some(deadline) = self.deadline {
            let late = self
                .unjudged
                .drain(..)
                .filter(|response| *response > deadline);
            self.misses += late.count() as u64;
        }
    }

    /// Processes the marks up to a time.
    fn catch_up(&mut self, until: Nanos) {
        while let Some(mark) = self.waiting.pop_front_if(|mark| mark.at <= until) {
            self.take(&mark);
        }
    }

    fn take(&mut self, mark: &ThreadMark) {
        // The mark before this one is not known: the measurement has just started, or marks of
        // the program were lost.
        let is_torn = self.lost_before != Some(mark.lost_before);
        self.lost_before = Some(mark.lost_before);
        if is_torn {
            self.last_number = None;
        }
        match mark.kind {
            MarkKind::Begin => {
                if self.open.is_some() {
                    self.count_unpaired(is_torn);
                }
                let next = self.last_number.map(|last| last.wrapping_add(1));
                if let Some(left) = next.and_then(|next| mark.number.checked_sub(next)) {
                    self.skipped = self.skipped.saturating_add(left);
                }
                self.last_number = Some(mark.number);
                let mut lived = self.spans.iter().rev();
                let within = lived.find(|cycle| cycle.from <= mark.at && mark.at <= cycle.done);
                self.open = Some(OpenCycle {
                    number: mark.number,
                    begun: mark.at,
                    due: within.map(|cycle| cycle.origin),
                });
            }
            MarkKind::End => {
                let open = self.open.take();
                let is_its = |open: &OpenCycle| open.number == mark.number && open.begun <= mark.at;
                match open {
                    Some(open) if is_its(&open) => self.done(&open, mark.at),
                    other => {
                        self.count_unpaired(is_torn);
                        if other.is_some() {
                            self.count_unpaired(is_torn);
                        }
                    }
                }
                // A lost mark may have had this number.
                self.last_number = self.last_number.max(is_torn.then_some(mark.number));
            }
        }
    }

    /// Counts a start without an end, or an end without a start.
    const fn count_unpaired(&mut self, is_torn: bool) {
        if is_torn {
            self.cut += 1;
        } else {
            self.unpaired += 1;
        }
    }

    fn done(&mut self, cycle: &OpenCycle, end: Nanos) {
        self.cycles += 1;
        self.takes.add(end.saturating_sub(cycle.begun));
        let Some(due) = cycle.due else {
            self.without_wake += 1;
            return;
        };
        let response = end.saturating_sub(due);
        self.begins.add(cycle.begun.saturating_sub(due));
        self.responses.add(response);
        match self.deadline {
            Some(deadline) => self.misses += u64::from(response > deadline),
            None if self.unjudged.len() < MAX_WAITING => self.unjudged.push(response),
            None => {}
        }
    }

    /// Returns the row of the thread; `None` without marks.
    pub(super) fn row(&self, name: String, tid: Tid, process: u32) -> Option<AttachCycles> {
        let is_any =
            self.cycles + self.unpaired + self.cut + self.dropped > 0 || self.open.is_some();
        is_any.then(|| AttachCycles {
            name,
            tid,
            process,
            cycles: self.cycles,
            begins: AttachFigures::new(&self.begins),
            takes: AttachFigures::new(&self.takes),
            response: AttachFigures::new(&self.responses),
            deadline_ns: self.deadline,
            misses: self.misses,
            without_wake: self.without_wake,
            unpaired: self.unpaired,
            cut: self.cut,
            skipped: self.skipped,
            dropped: self.dropped,
        })
    }
}

/// Cycles that a thread marks.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct AttachCycles {
    /// Latest name of the thread.
    pub name: String,
    /// Thread ID.
    pub tid: Tid,
    /// Process ID.
    pub process: u32,
    /// Cycles with a start and an end.
    pub cycles: u64,
    /// Time from when a cycle is due until it starts.
    pub begins: Option<AttachFigures>,
    /// Time from the start of a cycle to its end, waits included.
    pub takes: Option<AttachFigures>,
    /// Time from when a cycle is due until it ends.
    pub response: Option<AttachFigures>,
    /// Deadline: the given one, otherwise the period of the thread's timer; absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<Nanos>,
    /// Cycles that ended later.
    pub misses: u64,
    /// Cycles without a wakeup that was seen: when they were due is not known, and only
    /// `takes` has them.
    pub without_wake: u64,
    /// Starts without an end and ends without a start, if no mark is missing.
    pub unpaired: u64,
    /// Cycles with an unknown start or end at the start or end of the measurement or because
    /// marks were lost.
    pub cut: u64,
    /// Skipped cycle numbers.
    pub skipped: u64,
    /// Marks that were dropped because their memory was full.
    pub dropped: u64,
}

#[cfg(test)]
mod tests {
    use laggard_model::{Cpu, WokenBy};

    use super::*;

    fn us(time: u64) -> Nanos {
        Nanos::from_us(time)
    }

    fn lived(origin: u64, done: u64) -> ThreadActivation {
        let times = [origin, origin + 5, done].map(us);
        ThreadActivation::new(WokenBy::Vector, Cpu(0), times)
    }

    fn mark(time: u64, number: u64, kind: MarkKind) -> ThreadMark {
        ThreadMark {
            process: Some(1),
            thread: Tid(1),
            at: us(time),
            number,
            kind,
            lost_before: 0,
        }
    }

    fn row(cycles: &MarkedCycles) -> AttachCycles {
        cycles.row("app".into(), Tid(1), 1).unwrap()
    }

    #[test]
    fn cycle_that_waits_in_the_middle_counts_from_its_first_wakeup() {
        let mut marked = MarkedCycles::default();
        marked.add_mark(mark(1_010, 0, MarkKind::Begin));
        marked.add_mark(mark(1_900, 0, MarkKind::End));
        marked.add_activation(&lived(1_000, 1_100));
        marked.settle(Some(us(800)), false);
        assert_eq!(row(&marked).cycles, 0, "it is not known yet where it ended");

        marked.add_activation(&lived(1_500, 2_000));
        marked.settle(Some(us(800)), false);

        let reported = row(&marked);
        assert_eq!(
            (reported.cycles, reported.misses, reported.without_wake),
            (1, 1, 0)
        );
        assert_eq!(reported.begins.unwrap().largest_ns, us(10));
        assert_eq!(reported.takes.unwrap().largest_ns, us(890));
        assert_eq!(reported.response.unwrap().largest_ns, us(900));
    }

    /// The next wait was over before it started: one timer expires while the thread still works for
    /// the other.
    #[test]
    fn a_late_cycle_is_due_when_it_was_and_not_when_its_next_wait_is() {
        let late = ThreadActivation {
            running: us(1_990),
            ..lived(1_000, 2_020)
        };
        let next = ThreadActivation {
            running: us(2_020),
            ..lived(1_500, 2_030)
        };
        for run_seen in [true, false] {
            let mut marked = MarkedCycles::default();
            marked.add_mark(mark(2_000, 0, MarkKind::Begin));
            marked.add_mark(mark(2_025, 0, MarkKind::End));
            marked.add_activation(&ThreadActivation { run_seen, ..late });
            marked.add_activation(&ThreadActivation { run_seen, ..next });

            marked.settle(Some(us(800)), false);

            let reported = row(&marked);
            assert_eq!(
                (reported.misses, reported.response.unwrap().largest_ns),
                (1, us(1_025))
            );
        }
    }

    #[test]
    fn inconsistent_marks_are_counted_and_form_no_cycle() {
        let mut marked = MarkedCycles::default();
        for (time, number, kind) in [
            (1_010, 0, MarkKind::Begin),
            // Without the end of the one before.
            (1_020, 1, MarkKind::Begin),
            (1_030, 7, MarkKind::End),
            (1_040, 8, MarkKind::End),
            // 2 to 4 are left out.
            (1_050, 5, MarkKind::Begin),
            (1_060, 5, MarkKind::End),
            // In no activation.
            (1_200, 6, MarkKind::Begin),
            (1_210, 6, MarkKind::End),
        ] {
            marked.add_mark(mark(time, number, kind));
        }
        marked.add_activation(&lived(1_000, 1_100));
        marked.add_activation(&lived(1_300, 1_400));

        marked.settle(None, false);

        let reported = row(&marked);
        assert_eq!((reported.cycles, reported.without_wake), (2, 1));
        assert_eq!((reported.unpaired, reported.skipped), (4, 3));
        assert_eq!((reported.deadline_ns, reported.misses), (None, 0));
    }

    /// As a program does that is attached to in the middle of a cycle, marks faster than
    /// they are read, and still runs at the end.
    #[test]
    fn cycles_with_missing_marks_are_cut() {
        let mut marked = MarkedCycles::default();
        let (begin, end) = (MarkKind::Begin, MarkKind::End);
        for (time, number, kind, lost_before) in [
            (1_005, 4, end, 0),
            (1_010, 5, begin, 0),
            (1_015, 5, end, 0),
            (1_020, 6, begin, 0),
            // 20 marks were overwritten: the end of 6 and the start of 16.
            (1_040, 16, end, 20),
            (1_045, 17, begin, 20),
            // The marks of 17 are present, whatever else was lost.
            (1_050, 17, end, 21),
            (1_055, 18, begin, 21),
        ] {
            marked.add_mark(ThreadMark {
                lost_before,
                ..mark(time, number, kind)
            });
        }
        marked.add_activation(&lived(1_000, 1_100));

        marked.settle(None, true);

        let reported = row(&marked);
        assert_eq!((reported.cycles, reported.cut), (2, 4));
        assert_eq!((reported.unpaired, reported.skipped), (0, 0));
    }

    /// As of a thread that runs 10,000 times a second: all of a look come at once.
    #[test]
    fn cycles_of_one_look_are_due_with_their_activations() {
        let mut marked = MarkedCycles::default();
        let cycles = 3 * MAX_SPANS as u64;
        for number in 0..cycles {
            marked.add_mark(mark(100 * number + 10, number, MarkKind::Begin));
            marked.add_mark(mark(100 * number + 20, number, MarkKind::End));
        }
        for number in 0..cycles {
            marked.add_activation(&lived(100 * number, 100 * number + 50));
        }

        marked.settle(None, false);

        let reported = row(&marked);
        assert_eq!((reported.cycles, reported.without_wake), (cycles, 0));
    }

    #[test]
    fn a_deadline_found_later_applies_to_earlier_cycles() {
        let mut marked = MarkedCycles::default();
        marked.add_mark(mark(1_010, 0, MarkKind::Begin));
        marked.add_mark(mark(1_090, 0, MarkKind::End));
        marked.add_activation(&lived(1_000, 1_100));
        marked.settle(None, false);

        marked.settle(Some(us(50)), false);

        assert_eq!(row(&marked).misses, 1);
    }
}
