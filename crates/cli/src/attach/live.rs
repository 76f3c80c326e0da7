//! Figures and late cycles during the measurement: `attach --every`.

use laggard_answer::attach::{AttachChosen, AttachCollector, AttachTaken};
use laggard_model::{Nanos, printable_lines};
use laggard_view::attach::live;

use super::noted::NotedCycles;
use crate::pipe;

/// Prints figures of each interval and late cycles, as they come.
#[derive(Debug)]
pub(super) struct AttachLive {
    every: Nanos,
    from: Nanos,
    next: Nanos,
    /// Lines that are not printed yet.
    text: String,
    /// Late cycles since the last lines that were not analysed.
    left_out: u64,
    noted: NotedCycles,
}

impl AttachLive {
    /// Creates the view: it prints the figures of each `every` from `from`.
    pub(super) fn new(every: Nanos, from: Nanos) -> Self {
        Self {
            every,
            from,
            next: from + every,
            text: live::header(),
            left_out: 0,
            noted: NotedCycles::default(),
        }
    }

    /// Returns whether a line of the cycle is missing: it missed its deadline, and goes on or has ended
    /// since its last line. The cycles that were due while it went on have no lines.
    pub(super) fn wants(&self, cycle: &AttachChosen) -> bool {
        let is_noted = if cycle.is_ongoing() {
            self.noted.has(cycle)
        } else {
            self.noted.has_end(cycle)
        };
        cycle.missed() && cycle.passed() == 0 && !is_noted
    }

    /// Adds a cycle that missed its deadline, with the causes of its time.
    pub(super) fn late(&mut self, cycle: &AttachChosen, taken: &[AttachTaken]) {
        self.noted.add(cycle);
        let after = self.after(cycle.activation().origin);
        self.text += &live::late(cycle, taken, after);
    }

    /// Counts a cycle that missed its deadline and was not analysed.
    pub(super) const fn left_out(&mut self) {
        self.left_out += 1;
    }

    /// Prints the lines if it is time. Returns whether somebody still reads them.
    pub(super) fn show(
        &mut self,
        collector: &mut AttachCollector,
        now: Nanos,
    ) -> anyhow::Result<bool> {
        if now >= self.next {
            while self.next <= now {
                self.next += self.every;
            }
            let after = self.after(now);
            if self.left_out > 0 {
                self.text += &live::more_late(std::mem::take(&mut self.left_out), after);
            }
            for step in collector.step() {
                self.text += &live::step(&step, after);
            }
        }
        if self.text.is_empty() {
            return Ok(true);
        }
        pipe::try_print(&printable_lines(&std::mem::take(&mut self.text)).to_string())
    }

    /// Time from the start of the measurement.
    const fn after(&self, time: Nanos) -> Nanos {
        time.saturating_sub(self.from)
    }
}
