//! Kernel and thread of one line, as the script describes them.

use std::sync::atomic::Ordering;

use laggard_model::{Nanos, Stage};

use super::script::{Script, ScriptLine};
use crate::board::{Board, BoardSlot, Timeline};

/// Writer of a line's slots.
#[derive(Debug)]
pub(super) struct Player {
    index: usize,
    timeline: Timeline,
    start: Nanos,
    starved: bool,
}

impl Player {
    pub(super) const fn new(index: usize, timeline: Timeline, start: Nanos) -> Self {
        Self {
            index,
            timeline,
            start,
            starved: false,
        }
    }

    /// Serves every expiry before `until` whose service runs before `now`.
    pub(super) fn play(
        &mut self,
        board: &Board,
        line: &ScriptLine,
        script: &Script,
        now: Nanos,
        until: Nanos,
    ) {
        let writer = board.writer(0, self.index);
        while !self.starved && self.timeline.expiry() < until {
            let seq = self.timeline.seq();
            let expiry = self.timeline.expiry();
            let since_start = expiry.saturating_sub(self.start).ns();
            #[allow(
                clippy::cast_possible_truncation,
                reason = "less than the number of steps"
            )]
            let steps = &line.steps[(seq % line.steps.len() as u64) as usize];
            let begins = script
                .stalls
                .iter()
                .find_map(|stall| stall.end_around(since_start))
                .map_or(expiry, |end| self.start + Nanos::from_ns(end));
            let takes = steps.iter().map(|(_, ns)| ns).sum();
            let end = begins + Nanos::from_ns(takes);
            if line.starved_from_ns.is_some_and(|from| since_start >= from) {
                self.starved = expiry <= now;
                return;
            }
            if end > now {
                return;
            }
            if let Some(slot) = writer.claim(seq, expiry) {
                let steps_back = script
                    .clock_steps
                    .iter()
                    .any(|step| step.end_around(since_start).is_some());
                let begins = if steps_back {
                    expiry.saturating_sub(end)
                } else {
                    begins
                };
                writer.publish(slot, write_stages(slot, begins, steps), false);
            }
            self.timeline.advance();
            while self.timeline.expiry() <= end {
                self.timeline.advance();
            }
        }
    }
}

/// Stamps the intermediate stages, starting at `begins`. Returns the time of the last one.
fn write_stages(slot: &BoardSlot, begins: Nanos, steps: &[(Stage, u64)]) -> Nanos {
    let mut time = begins;
    for &(stage, ns) in steps {
        time += Nanos::from_ns(ns);
        if let Some(stamp) = slot.stamp(stage) {
            stamp.store(time.ns(), Ordering::Relaxed);
        }
        let is_elsewhere = u64::from(stage == Stage::IrqElsewhere);
        slot.elsewhere.fetch_or(is_elsewhere, Ordering::Relaxed);
    }
    time
}
