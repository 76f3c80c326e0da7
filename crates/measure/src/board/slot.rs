//! One activation as it is stored on the board.

use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::{Nanos, Stage};

use super::BoardSlot;
use super::shared::{BOARD_ARMED, BOARD_ARMED_LATE, BOARD_FOREIGN};

/// Bits of `seq` that hold the number and not a mark.
const NUMBER: u64 = !(1 << BOARD_ARMED | 1 << BOARD_ARMED_LATE | 1 << BOARD_FOREIGN);

impl BoardSlot {
    /// Returns the activation's number within its line.
    pub fn seq(&self) -> u64 {
        self.seq.load(Ordering::Relaxed) & NUMBER
    }

    /// Returns the time when the activation was due.
    pub fn expiry(&self) -> Nanos {
        Nanos::from_ns(self.expiry_ns.load(Ordering::Relaxed))
    }

    /// Returns the time when the service ran.
    pub fn end(&self) -> Nanos {
        Nanos::from_ns(self.end_ns.load(Ordering::Relaxed))
    }

    /// Returns the stamp of an intermediate stage. `None`: the stage is the service's first
    /// instruction, which is the end.
    pub const fn stamp(&self, stage: Stage) -> Option<&AtomicU64> {
        match stage {
            Stage::Irq | Stage::IrqElsewhere => Some(&self.irq_ns),
            Stage::IrqThread => Some(&self.irq_thread_ns),
            Stage::Expire => Some(&self.expire_ns),
            Stage::Raise => Some(&self.raise_ns),
            Stage::Softirq => Some(&self.softirq_ns),
            Stage::Signal => Some(&self.signal_ns),
            Stage::Waking => Some(&self.waking_ns),
            Stage::Running => Some(&self.running_ns),
            Stage::User | Stage::Worker | Stage::Kthread | Stage::Done => None,
        }
    }

    /// Returns whether the service ran on another CPU than the line's.
    pub fn is_foreign(&self) -> bool {
        self.has(BOARD_FOREIGN)
    }

    /// Returns whether the thread started to wait only after the expiry.
    pub fn is_armed_late(&self) -> bool {
        self.has(BOARD_ARMED_LATE)
    }

    /// Returns whether the thread has armed a timer descriptor for the activation.
    pub fn is_armed(&self) -> bool {
        self.has(BOARD_ARMED)
    }

    /// Marks that the service ran on another CPU than the line's. Only the writer of the slot
    /// calls this.
    pub fn set_foreign(&self) {
        self.set(BOARD_FOREIGN);
    }

    /// Marks that the thread started to wait only after the expiry.
    pub fn set_armed_late(&self) {
        self.set(BOARD_ARMED_LATE);
    }

    /// Marks that a timer descriptor has been armed.
    pub fn set_armed(&self) {
        self.set(BOARD_ARMED);
    }

    fn has(&self, mark: u32) -> bool {
        self.seq.load(Ordering::Relaxed) >> mark & 1 != 0
    }

    /// A slot has one writer at a time, so no atomic exchange is needed.
    fn set(&self, mark: u32) {
        let seq = self.seq.load(Ordering::Relaxed);
        self.seq.store(seq | 1 << mark, Ordering::Relaxed);
    }

    /// Clears the previous activation and sets the number of the new one.
    pub fn begin(&self, seq: u64, expiry: Nanos, lost_before: u64) {
        // Lists every field: a field that is omitted here would keep the value of the last
        // activation.
        let Self {
            seq: marked_seq,
            expiry_ns,
            irq_ns,
            irq_thread_ns,
            expire_ns,
            raise_ns,
            softirq_ns,
            signal_ns,
            waking_ns,
            running_ns,
            end_ns,
            lost_before: lost,
            elsewhere,
        } = self;
        marked_seq.store(seq, Ordering::Relaxed);
        expiry_ns.store(expiry.ns(), Ordering::Relaxed);
        for stage in [
            irq_ns,
            irq_thread_ns,
            expire_ns,
            raise_ns,
            softirq_ns,
            signal_ns,
            waking_ns,
            running_ns,
            end_ns,
            elsewhere,
        ] {
            stage.store(0, Ordering::Relaxed);
        }
        lost.store(lost_before, Ordering::Relaxed);
    }
}
