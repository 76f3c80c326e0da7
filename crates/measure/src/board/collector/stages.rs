//! From a slot's stamps to the steps of an activation.

use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::{Activation, LossReason, Nanos, STAGES, Stage};

use super::super::BoardSlot;
use super::line::{Asker, LineReader};

/// Stages between the first and the last are kept in steps of this many ns.
/// Taking a stamp costs several times as much, and it saves a seventh of the
/// recording's size. The latency, the sum of all steps, stays exact.
const GRAIN_NS: u64 = 16;

/// `time`, cut to the grain counted from `expiry`.
fn coarse(expiry: Nanos, time: Nanos) -> Nanos {
    let since = time.saturating_sub(expiry).ns();
    expiry + Nanos::from_ns(since / GRAIN_NS * GRAIN_NS)
}

impl LineReader {
    /// The activation in a slot, number `seq`; counts the stages that are
    /// absent. `Err`: it cannot be used at all, and why.
    pub(super) fn read(&mut self, slot: &BoardSlot, seq: u64) -> Result<Activation, LossReason> {
        let activation = self.read_until(slot, seq, self.last, slot.end())?;
        self.count_unseen(slot);
        Ok(activation)
    }

    /// The same of an activation whose stages are not the machine's doing:
    /// nothing but when the service ran.
    pub(super) fn read_end(&self, slot: &BoardSlot, seq: u64) -> Result<Activation, LossReason> {
        let total = self.latency(slot, slot.end())?;
        let mut steps = [None; STAGES.len()];
        steps[self.last.index()] = Some(total);
        Ok(Activation {
            line: self.id,
            seq,
            expiry: slot.expiry(),
            missed: false,
            censored: false,
            steps,
        })
    }

    /// The stages of a slot up to `last`, which came at `end`.
    pub(super) fn read_until(
        &mut self,
        slot: &BoardSlot,
        seq: u64,
        last: Stage,
        end: Nanos,
    ) -> Result<Activation, LossReason> {
        let (expiry, total) = (slot.expiry(), self.latency(slot, end)?);
        let losses = &mut self.account.losses;
        let mut steps = [None; STAGES.len()];
        let mut before = expiry;
        let irq = match slot.elsewhere.load(Ordering::Relaxed) {
            0 => Stage::Irq,
            _ => Stage::IrqElsewhere,
        };
        // Which of the two the interrupt is, its only stamp does not tell.
        let all = STAGES[..last.index()].iter().copied();
        for stage in
            all.filter(|&one| one == irq || !matches!(one, Stage::Irq | Stage::IrqElsewhere))
        {
            let Some(stamp) = slot.stamp(stage) else {
                continue;
            };
            let time = Nanos::from_ns(stamp.load(Ordering::Relaxed));
            let asked = if stage == irq { Stage::Irq } else { stage };
            if time == Nanos::ZERO || !self.stamps.has(asked) {
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
            if time > end {
                // Whoever read the clock last was preempted before saying so,
                // and what came then was still taken for this activation's.
                losses.add(LossReason::OutOfOrder, 1);
                continue;
            }
            match (Nanos::between(before, time), stage) {
                (Some(_), _) => {
                    let time = coarse(expiry, time);
                    steps[stage.index()] = Some(time.saturating_sub(before));
                    before = time;
                }
                // A thread can be woken for something else before.
                (None, Stage::Waking | Stage::Running) => losses.add(LossReason::OutOfOrder, 1),
                (None, _) => losses.add(LossReason::ClockBack, 1),
            }
        }
        let seen = before.saturating_sub(expiry);
        steps[last.index()] = Some(total.saturating_sub(seen));
        Ok(Activation {
            line: self.id,
            seq,
            expiry,
            missed: false,
            censored: false,
            steps,
        })
    }

    /// From the expiry in a slot to `end`.
    fn latency(&self, slot: &BoardSlot, end: Nanos) -> Result<Nanos, LossReason> {
        let reason = match self.asker {
            // It was awake when it was asked, and had read the clock before.
            Asker::Follower | Asker::Device => LossReason::OutOfOrder,
            Asker::Thread | Asker::Callback | Asker::Carrier | Asker::Mirrored => {
                LossReason::ClockBack
            }
        };
        Nanos::between(slot.expiry(), end).ok_or(reason)
    }

    fn count_unseen(&mut self, slot: &BoardSlot) {
        let is_unseen = |time: &AtomicU64| time.load(Ordering::Relaxed) == 0;
        let losses = &mut self.account.losses;
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
