//! From the board's slots to activations: the collector's side of the rings.

mod mirror;
mod skips;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::{Activation, Batch, LineId, LossReason, Losses, Nanos, STAGES, Stage};

use super::board::{CpuBoard, Slot};
use super::stamps::Stamps;
use crate::timeline::Timeline;
pub(crate) use mirror::Mirror;
pub(crate) use skips::Skips;

/// Stages between the first and the last are kept in steps of this many ns.
/// Taking a stamp costs several times as much, and it saves a seventh of the
/// recording's size. The latency, the sum of all steps, stays exact.
const GRAIN_NS: u64 = 16;

/// `time`, cut to the grain counted from `expiry`.
fn coarse(expiry: Nanos, time: Nanos) -> Nanos {
    let since = time.saturating_sub(expiry).ns();
    expiry + Nanos::from_ns(since / GRAIN_NS * GRAIN_NS)
}

/// Which stages a line's activations should have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    /// A timer's callback, in an interrupt or in softirq context.
    pub(crate) expire: bool,
    /// An interrupt before the first stage.
    pub(crate) irq: bool,
    /// A thread's wakeup.
    pub(crate) waking: bool,
}

/// One line, as the collector sees it.
#[derive(Debug)]
pub(crate) struct LineReader {
    pub(crate) id: LineId,
    /// Its place among the lines of its CPU.
    pub(crate) index: usize,
    pub(crate) expected: Expected,
    /// The last stage, which `end_ns` is.
    pub(crate) last: Stage,
    /// The stages on the way that are kept.
    pub(crate) stamps: Stamps,
    /// Plans the line's expiries again, to tell when missed ones were due.
    pub(crate) planned: Option<Timeline>,
    /// Only every `stride`-th expiry of the timeline, from `first` on, is
    /// this line's.
    pub(crate) stride: u64,
    pub(crate) first: u64,
    /// Whether the softirq's callback asks for it.
    pub(crate) is_follower: bool,
    /// The number of the next activation.
    pub(crate) next_seq: u64,
    /// When the service last ran.
    pub(crate) last_end: Option<Nanos>,
    /// When an external source last raised its interrupt; `None` with timers.
    pub(crate) last_raise: Option<Nanos>,
    /// Expiries before this instant are not recorded, nor numbered.
    pub(crate) begin: Nanos,
    /// Nor are expiries from this instant on: ending disturbs them.
    pub(crate) until: Nanos,
    /// How many expiries came before `begin`.
    pub(crate) unrecorded: u64,
    /// Expiries that are missing though nothing kept the service busy: it was
    /// served and found no room or, a follower, was not asked.
    pub(crate) unexplained: u64,
    /// Activations whose timer expired on another CPU.
    pub(crate) elsewhere: u64,
    /// The softirq's line, where it has this line's activations.
    pub(crate) mirror: Option<Mirror>,
}

impl LineReader {
    /// Appends everything new; counts what was lost. A CPU's softirq line
    /// comes before its followers. A follower's gap waits until that line
    /// tells what the softirq did meanwhile, which may be the next time.
    pub(crate) fn drain(
        &mut self,
        cpu: &CpuBoard,
        ring: &[Slot],
        skips: &mut Skips,
        into: &mut Batch,
        losses: &mut Losses,
    ) {
        let line = &cpu.lines[self.index];
        let head = line.head.load(Ordering::Acquire);
        let mut tail = line.tail.load(Ordering::Relaxed);
        while tail < head {
            #[allow(clippy::cast_possible_truncation)]
            let slot = &ring[(tail % ring.len() as u64) as usize];
            if self.must_wait(slot, skips) {
                break;
            }
            self.take(slot, skips, into, losses);
            tail += 1;
            line.tail.store(tail, Ordering::Release);
        }
        if self.last == Stage::Softirq {
            skips.read_until(self.next_seq);
        }
        if let Some(mirror) = &mut self.mirror {
            mirror.drain(into);
        }
    }

    /// Whether there is a gap before this activation that the softirq may
    /// still explain. At the end there is nothing to wait for.
    fn must_wait(&self, slot: &Slot, skips: &Skips) -> bool {
        let seq = slot.seq.load(Ordering::Relaxed);
        self.is_follower
            && self.until == Nanos::MAX
            && self.next_seq < seq
            && !skips.knows(self.number(seq - 1))
    }

    /// The timeline's number of expiry `seq`.
    fn number(&self, seq: u64) -> u64 {
        seq * self.stride + self.first
    }

    /// Activations lost since the last one that found room.
    pub(crate) fn lost_since(&self, cpu: &CpuBoard) -> u64 {
        cpu.lines[self.index].lost.load(Ordering::Relaxed)
    }

    fn take(&mut self, slot: &Slot, skips: &mut Skips, into: &mut Batch, losses: &mut Losses) {
        let seq = slot.seq.load(Ordering::Relaxed);
        let end = Nanos::from_ns(slot.end_ns.load(Ordering::Relaxed));
        let lost = slot.lost_before.load(Ordering::Relaxed);
        let expiry = Nanos::from_ns(slot.expiry_ns.load(Ordering::Relaxed));
        if expiry < self.begin {
            self.unrecorded = seq + 1;
            self.took(seq, expiry, end);
            return;
        }
        losses.add(LossReason::RingFull, lost);
        // The ring fills last, so the lost ones are the newest of the gap.
        let missed_until = seq.saturating_sub(lost);
        while self.next_seq < seq {
            let expiry = self.planned_expiry();
            if self.next_seq < missed_until {
                match self.served(expiry, skips, end) {
                    Some(served) => self.note_missed(expiry, served, skips, into),
                    None if expiry < self.until => self.unexplained += 1,
                    None => {}
                }
            }
            self.next_seq += 1;
        }
        self.planned_expiry();
        self.took(seq, expiry, end);
        if expiry >= self.until {
            return;
        }
        self.elsewhere += slot.elsewhere.load(Ordering::Relaxed);
        if let Some(activation) = self.activation(slot, seq, end, losses) {
            into.push(&activation);
            if let Some(mirror) = &mut self.mirror {
                mirror.serve(&activation);
            }
        }
    }

    fn took(&mut self, seq: u64, expiry: Nanos, end: Nanos) {
        self.next_seq = seq + 1;
        self.last_end = Some(end);
        self.last_raise = self.last_raise.map(|_| expiry);
    }

    /// Keeps expiry `next_seq`, which was missed, if it is to be recorded.
    fn note_missed(&mut self, expiry: Nanos, served: Nanos, skips: &mut Skips, into: &mut Batch) {
        if self.last == Stage::Softirq {
            skips.add(self.next_seq, served);
        }
        if expiry < self.begin {
            self.unrecorded = self.next_seq + 1;
        } else if expiry < self.until {
            into.push(&self.missed(self.next_seq, expiry, served));
            if let Some(mirror) = &mut self.mirror {
                mirror.miss(expiry);
            }
        }
    }

    /// When expiry `next_seq`, which was missed, would have been served had it
    /// queued: when the service got to the activation before it or, for a
    /// follower that was not asked, when its softirq ran (at the earliest).
    fn served(&self, expiry: Nanos, skips: &Skips, first_end: Nanos) -> Option<Nanos> {
        let number = self.number(self.next_seq);
        let skipped = if self.is_follower {
            skips.get(number)
        } else {
            None
        };
        // What an external source raised late kept it from raising, not the
        // service from serving.
        if self.last_raise.is_some_and(|raise| expiry < raise) {
            return None;
        }
        // Before anything was served, the first to be served stands in.
        let before = self.last_end.or(Some(first_end));
        before.max(skipped).filter(|served| *served >= expiry)
    }

    /// The planned time of expiry `next_seq`.
    fn planned_expiry(&mut self) -> Nanos {
        let number = self.number(self.next_seq);
        let Some(timeline) = &mut self.planned else {
            return Nanos::ZERO;
        };
        while timeline.seq() < number {
            timeline.advance();
        }
        timeline.expiry()
    }

    fn missed(&self, seq: u64, expiry: Nanos, served: Nanos) -> Activation {
        let mut steps = [None; STAGES.len()];
        steps[self.last.index()] = Some(served.saturating_sub(expiry));
        Activation {
            line: self.id,
            seq: seq - self.unrecorded,
            expiry,
            missed: true,
            censored: false,
            steps,
        }
    }

    fn activation(
        &self,
        slot: &Slot,
        seq: u64,
        end: Nanos,
        losses: &mut Losses,
    ) -> Option<Activation> {
        let expiry = Nanos::from_ns(slot.expiry_ns.load(Ordering::Relaxed));
        let Some(total) = Nanos::between(expiry, end) else {
            losses.add(LossReason::ClockBack, 1);
            return None;
        };
        let mut steps = [None; STAGES.len()];
        let mut before = expiry;
        let irq = match slot.elsewhere.load(Ordering::Relaxed) {
            0 => Stage::Irq,
            _ => Stage::IrqElsewhere,
        };
        for (stage, time) in [
            (irq, &slot.irq_ns),
            (Stage::IrqThread, &slot.irq_thread_ns),
            (Stage::Expire, &slot.expire_ns),
            (Stage::Raise, &slot.raise_ns),
            (Stage::Softirq, &slot.softirq_ns),
            (Stage::Signal, &slot.signal_ns),
            (Stage::Waking, &slot.waking_ns),
            (Stage::Running, &slot.running_ns),
        ] {
            let time = Nanos::from_ns(time.load(Ordering::Relaxed));
            let asked = if stage == irq { Stage::Irq } else { stage };
            if time == Nanos::ZERO || stage == self.last || !self.stamps.has(asked) {
                continue;
            }
            // An interrupt or raise from before the expiry served another
            // timer first; it says nothing of this activation.
            if time < expiry && (stage == irq || stage == Stage::Raise) {
                if stage == irq {
                    losses.add(LossReason::IrqShared, 1);
                }
                continue;
            }
            match Nanos::between(before, time) {
                Some(_) if time <= end => {
                    let time = coarse(expiry, time);
                    steps[stage.index()] = Some(time.saturating_sub(before));
                    before = time;
                }
                _ => losses.add(LossReason::ClockBack, 1),
            }
        }
        self.count_unseen(slot, losses);
        let seen = before.saturating_sub(expiry);
        steps[self.last.index()] = Some(total.saturating_sub(seen));
        Some(Activation {
            line: self.id,
            seq: seq - self.unrecorded,
            expiry,
            missed: false,
            censored: false,
            steps,
        })
    }

    fn count_unseen(&self, slot: &Slot, losses: &mut Losses) {
        let is_unseen = |time: &AtomicU64| time.load(Ordering::Relaxed) == 0;
        if self.expected.expire && is_unseen(&slot.expire_ns) && is_unseen(&slot.softirq_ns) {
            losses.add(LossReason::ExpireUnseen, 1);
        } else if self.expected.irq && is_unseen(&slot.irq_ns) {
            losses.add(LossReason::IrqShared, 1);
        }
        if self.expected.waking && is_unseen(&slot.waking_ns) {
            losses.add(LossReason::WakingUnseen, 1);
        }
    }
}
