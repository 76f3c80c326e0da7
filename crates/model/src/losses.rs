//! Losses: what the tool failed to record, by reason.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why something that happened is not in a recording.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
    /// The ring between probe and collector was full: the activation is lost.
    RingFull,
    /// Two stages' clock readings ran backwards: that stage is absent.
    ClockBack,
    /// Two stages were stamped in the wrong order though the clock is sound (a
    /// thread was preempted between reading the clock and saying so): that
    /// stage is absent.
    OutOfOrder,
    /// No timer callback was seen for a wait: the stages before waking are absent.
    ExpireUnseen,
    /// The interrupt had begun before the expiry (it was already serving
    /// another timer): the `irq` stage is absent.
    IrqShared,
    /// The thread ran without a wakeup that we saw: that stage is absent.
    WakingUnseen,
    /// The thread came to wait for this expiry only after it: no interrupt of
    /// the machine's began it in time, and the stages on the way are absent.
    ArmedLate,
    /// The softirq could not wake its thread, or its timer was not armed in
    /// time to start its work item.
    SignalFailed,
    /// The interrupt of an external source was not raised at that time: what
    /// raises it was late itself, or the thread that waits for it was not
    /// ready again.
    NotRaised,
    /// The service had not run yet when the recording ended: its latency is
    /// not known, only that it was longer.
    Unserved,
    /// The service ran on another CPU than its line's, or waited there to the
    /// end.
    Foreign,
    /// laggard itself was stopped (a signal, a debugger, suspend) while this was
    /// due: what it would have seen is not the machine's doing.
    Stopped,
    /// The kernel skipped a program of ours because it was running already: a
    /// stage is absent.
    Recursion,
    /// The recording could not be written: the activations of a batch are lost.
    NotWritten,
}

/// Counts of everything that the tool failed to record.
///
/// A distribution without these numbers is not trustworthy, so every report
/// shows them, also when they are zero.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct Losses {
    /// See [`LossReason::RingFull`].
    pub ring_full: u64,
    /// See [`LossReason::ClockBack`].
    pub clock_back: u64,
    /// See [`LossReason::OutOfOrder`].
    pub out_of_order: u64,
    /// See [`LossReason::ExpireUnseen`].
    pub expire_unseen: u64,
    /// See [`LossReason::IrqShared`].
    pub irq_shared: u64,
    /// See [`LossReason::WakingUnseen`].
    pub waking_unseen: u64,
    /// See [`LossReason::ArmedLate`].
    pub armed_late: u64,
    /// See [`LossReason::SignalFailed`].
    pub signal_failed: u64,
    /// See [`LossReason::NotRaised`].
    pub not_raised: u64,
    /// See [`LossReason::Unserved`].
    pub unserved: u64,
    /// See [`LossReason::Foreign`].
    pub foreign: u64,
    /// See [`LossReason::Stopped`].
    pub stopped: u64,
    /// See [`LossReason::Recursion`].
    pub recursion: u64,
    /// See [`LossReason::NotWritten`].
    pub not_written: u64,
    /// Activations that are missing altogether for a reason which otherwise
    /// costs a stage only: their service's clock reading lay before the expiry,
    /// so that their latency is not known. They are in the counts above, too.
    pub whole: u64,
}

impl LossReason {
    /// Whether an activation is always missing altogether, not only a stage of one.
    pub const fn is_of_activations(self) -> bool {
        matches!(
            self,
            Self::RingFull
                | Self::SignalFailed
                | Self::NotRaised
                | Self::Unserved
                | Self::Foreign
                | Self::Stopped
                | Self::NotWritten
        )
    }
}

impl Losses {
    /// Adds `count` losses of one kind.
    pub fn add(&mut self, reason: LossReason, count: u64) {
        *self.slot(reason) += count;
    }

    /// Adds an activation that is missing altogether, for whatever reason.
    pub fn add_whole(&mut self, reason: LossReason) {
        self.add(reason, 1);
        self.whole += u64::from(!reason.is_of_activations());
    }

    /// Every reason with its count, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (LossReason, u64)> {
        let mut copy = *self;
        LossReason::ALL
            .into_iter()
            .map(move |reason| (reason, *copy.slot(reason)))
    }

    /// Activations that are missing altogether (not only a stage of one).
    pub fn activations(&self) -> u64 {
        let of_activations = self
            .iter()
            .filter(|(reason, _)| reason.is_of_activations())
            .map(|(_, count)| count);
        of_activations.fold(self.whole, u64::saturating_add)
    }

    /// Adds all that `other` counts.
    pub fn merge(&mut self, other: &Self) {
        for (reason, count) in other.iter() {
            self.add(reason, count);
        }
        self.whole += other.whole;
    }

    /// What was lost since `earlier`, of the same run, was read.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = Self {
            whole: self.whole.saturating_sub(earlier.whole),
            ..Self::default()
        };
        for ((reason, now), (_, before)) in self.iter().zip(earlier.iter()) {
            since.add(reason, now.saturating_sub(before));
        }
        since
    }

    fn slot(&mut self, reason: LossReason) -> &mut u64 {
        match reason {
            LossReason::RingFull => &mut self.ring_full,
            LossReason::ClockBack => &mut self.clock_back,
            LossReason::OutOfOrder => &mut self.out_of_order,
            LossReason::ExpireUnseen => &mut self.expire_unseen,
            LossReason::IrqShared => &mut self.irq_shared,
            LossReason::WakingUnseen => &mut self.waking_unseen,
            LossReason::ArmedLate => &mut self.armed_late,
            LossReason::SignalFailed => &mut self.signal_failed,
            LossReason::NotRaised => &mut self.not_raised,
            LossReason::Unserved => &mut self.unserved,
            LossReason::Foreign => &mut self.foreign,
            LossReason::Stopped => &mut self.stopped,
            LossReason::Recursion => &mut self.recursion,
            LossReason::NotWritten => &mut self.not_written,
        }
    }
}

impl LossReason {
    /// Every reason for a loss.
    pub const ALL: [Self; 14] = [
        Self::RingFull,
        Self::ClockBack,
        Self::OutOfOrder,
        Self::ExpireUnseen,
        Self::IrqShared,
        Self::WakingUnseen,
        Self::ArmedLate,
        Self::SignalFailed,
        Self::NotRaised,
        Self::Unserved,
        Self::Foreign,
        Self::Stopped,
        Self::Recursion,
        Self::NotWritten,
    ];

    /// The reason in plain words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::RingFull => "ring full",
            Self::ClockBack => "clock ran backwards",
            Self::OutOfOrder => "stamped out of order",
            Self::ExpireUnseen => "timer callback not seen",
            Self::IrqShared => "joined a running interrupt",
            Self::WakingUnseen => "wakeup not seen",
            Self::ArmedLate => "waited for after it was due",
            Self::SignalFailed => "softirq could not signal",
            Self::NotRaised => "interrupt not raised",
            Self::Unserved => "not served by the end",
            Self::Foreign => "ran on another CPU",
            Self::Stopped => "laggard was stopped",
            Self::Recursion => "program skipped",
            Self::NotWritten => "not written",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activation_that_is_lost_altogether_counts_whatever_the_reason() {
        let mut losses = Losses::default();
        losses.add(LossReason::ClockBack, 3);
        assert_eq!(losses.activations(), 0, "stages only");

        let before = losses;
        losses.add_whole(LossReason::ClockBack);
        losses.add_whole(LossReason::RingFull);

        assert_eq!((losses.clock_back, losses.ring_full), (4, 1));
        assert_eq!(losses.activations(), 2);
        assert_eq!(losses.since(&before).activations(), 2);
        let mut twice = losses;
        twice.merge(&losses);
        assert_eq!(twice.activations(), 4);
    }
}
