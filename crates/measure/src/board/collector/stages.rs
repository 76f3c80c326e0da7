//! Steps of an activation, computed from the stamps in its slot.

use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::{Activation, LossReason, Nanos, STAGES, Stage};

use super::super::BoardSlot;
use super::line::{Asker, LineReader};

/// Resolution in ns of the stages between the first and the last. Taking a timestamp costs several
/// times this resolution. The rounding saves a seventh of the recording's size. The latency, which
/// is the sum of all steps, stays exact.
const GRAIN_NS: u64 = 16;

/// Rounds `time` down to the grain, counted from `expiry`.
fn coarse(expiry: Nanos, time: Nanos) -> Nanos {
    let since = time.saturating_sub(expiry).ns();
    expiry + Nanos::from_ns(since / GRAIN_NS * GRAIN_NS)
}

impl LineReader {
    /// Returns the activation in a slot, with number `seq`, and counts its absent stages. `Err`
    /// is the reason why the activation is not usable.
    pub(super) fn read(&mut self, slot: &BoardSlot, seq: u64) -> Result<Activation, LossReason> {
        let activation = self.read_until(slot, seq, self.last, slot.end())?;
        self.count_unseen(slot);
        Ok(activation)
    }

    /// Returns the activation in a slot with its end only, because the machine did not cause its
    /// stages.
    pub(super) fn read_end(&self, slot: &BoardSlot, seq: u64) -> Result<Activation, LossReason> {
        let total = self.latency(slot, slot.end())?;
        let mut steps = [None; STAGES.len()];
        steps[self.last.index()] = Some(total);
        Ok(Activation::new(self.id, seq, slot.expiry(), steps))
    }

    /// Returns the stages of a slot up to `last`, whose time is `end`.
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
        // The interrupt has only one stamp, which does not show which of the two stages it is.
        let stages = STAGES[..last.index()].iter().copied();
        for stage in stages
            .filter(|&stage| stage == irq || !matches!(stage, Stage::Irq | Stage::IrqElsewhere))
        {
            let Some(stamp) = slot.stamp(stage) else {
                continue;
            };
            let time = Nanos::from_ns(stamp.load(Ordering::Relaxed));
            let stamped = if stage == irq { Stage::Irq } else { stage };
            if time == Nanos::ZERO || !self.stamps.has(stamped) {
                continue;
            }
            // An interrupt or raise before the expiry served another timer first. It is not part
            // of this activation.
            if time < expiry && (stage == irq || stage == Stage::Raise) {
                if stage == irq {
                    losses.add(LossReason::IrqShared, 1);
                }
                continue;
            }
            if time > end {
                // The previous reader of the clock was preempted before it stored its reading,
                // and later stamps were still taken for this activation.
                losses.add(LossReason::OutOfOrder, 1);
                continue;
            }
            match (Nanos::between(before, time), stage) {
                (Some(_), _) => {
                    let time = coarse(expiry, time);
                    steps[stage.index()] = Some(time.saturating_sub(before));
                    before = time;
                }
                // A thread can be woken earlier for another reason.
                (None, Stage::Waking | Stage::Running) => losses.add(LossReason::OutOfOrder, 1),
                (None, _) => losses.add(LossReason::ClockBack, 1),
            }
        }
        let counted = before.saturating_sub(expiry);
        steps[last.index()] = Some(total.saturating_sub(counted));
        Ok(Activation::new(self.id, seq, expiry, steps))
    }

    /// Returns the time from the expiry in a slot to `end`.
    fn latency(&self, slot: &BoardSlot, end: Nanos) -> Result<Nanos, LossReason> {
        let reason = match self.asker {
            // The service was awake when it was requested, and had read the clock before.
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
