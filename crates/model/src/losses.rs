//! Losses: data that laggard failed to record, by reason.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reason why an event is missing from a recording.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
    /// The ring between probe and collector was full: the activation is lost.
    RingFull,
    /// The clock readings of two stages ran backwards: that stage is absent.
    ClockBack,
    /// Two stages were stamped in the wrong order although the clock is sound (a thread
    /// was preempted between reading the clock and storing it): that stage is absent.
    OutOfOrder,
    /// No timer callback was seen for a wait: the stages before waking are absent.
    ExpireUnseen,
    /// The interrupt had started before the expiry (it was already serving another
    /// timer): the `irq` stage is absent.
    IrqShared,
    /// The thread ran without a recorded wakeup: that stage is absent.
    WakingUnseen,
    /// The thread started to wait for this expiry only after it: no interrupt served it
    /// in time, and the intermediate stages are absent.
    ArmedLate,
    /// The softirq could not wake its thread, or its timer was not armed in
    /// time to start its work item.
    SignalFailed,
    /// The interrupt of an external source was not raised at that time: its source was
    /// late itself, or the waiting thread was not ready again.
    NotRaised,
    /// The service had not run when the recording ended: the latency is a lower bound.
    Unserved,
    /// The service ran on another CPU than its line's, or waited there to the end.
    Foreign,
    /// laggard itself was stopped (a signal, a debugger, suspend) when this was due, so
    /// the delay is not the machine's.
    Stopped,
    /// The kernel skipped a BPF program of laggard because it was running already: a
    /// stage is absent.
    Recursion,
    /// The recording could not be written: the activations of a batch are lost.
    NotWritten,
}

/// Counts of all data that laggard failed to record.
///
/// A distribution without these numbers is not trustworthy, so every report shows them,
/// including zeros.
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
    /// Completely missing activations, for a reason that otherwise affects only a
    /// stage: their service's clock reading was before the expiry, so their latency is
    /// unknown. They are in the counts above, too.
    pub whole: u64,
}

impl LossReason {
    /// Returns whether this reason always loses a complete activation, not only a
    /// stage.
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

    /// Adds a completely lost activation, for any reason.
    pub fn add_whole(&mut self, reason: LossReason) {
        self.add(reason, 1);
        self.whole += u64::from(!reason.is_of_activations());
    }

    /// Returns every reason with its count, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (LossReason, u64)> {
        let mut copy = *self;
        LossReason::ALL
            .into_iter()
            .map(move |reason| (reason, *copy.slot(reason)))
    }

    /// Returns the number of completely lost activations.
    pub fn activations(&self) -> u64 {
        let of_activations = self
            .iter()
            .filter(|(reason, _)| reason.is_of_activations())
            .map(|(_, count)| count);
        of_activations.fold(self.whole, u64::saturating_add)
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (reason, count) in other.iter() {
            self.add(reason, count);
        }
        self.whole += other.whole;
    }

    /// Returns the losses since `earlier`, of the same run.
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

    /// Returns the reason in plain words.
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
    fn completely_lost_activation_counts_for_any_reason() {
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
