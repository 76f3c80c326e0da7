//! Reasons for or against naming a culprit.

use std::fmt;

use serde::{Serialize, Serializer};

/// Reason why no culprit is named, or an additional fact: a doubt, a lock. Serialized
/// as text, and ordered by that text.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Because {
    /// The firmware stopped all CPUs this number of times.
    SystemManagement(u32),
    /// The running thread should have been preempted, and the sampler has no sample of
    /// it.
    NoSample,
    /// The thread allowed its timer to be this late.
    Slack,
    /// The CPU idled although the thread could run.
    Idled,
    /// The CPU had to wait for another one, which had its timer.
    Elsewhere,
    /// The kernel lent the thread the priority of a thread that waits for its lock.
    Boosted,
    /// The waiting thread has a higher nice weight than the thread that ran, without
    /// effect: they are in control groups, and the other's group is not the heavier
    /// one.
    NiceInGroup,
    /// There are no records at all.
    NothingKnown,
    /// There is no record of this time.
    NothingRecorded,
    /// There is no record, although user code cannot prevent one.
    NothingInUserCode,
    /// There is no record, not even of the switch that must have happened.
    NoSwitch,
    /// A stop of the whole CPU from outside may have taken the time.
    OrOutside,
    /// Another thread ran after this one, and the switch was not recorded.
    UnseenSwitch,
    /// The record was overwritten by newer ones.
    Overwritten,
    /// The records of this time were lost.
    Lost,
    /// The time at which the thread could run is unknown.
    WakeUnseen,
    /// The reason for the late timer interrupt is unknown.
    LateInterrupt,
    /// The thread has run since before the records start.
    BeforeRecord,
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::SystemManagement(1) => "1 system management interrupt meanwhile",
            Self::SystemManagement(more) => {
                return write!(f, "{more} system management interrupts meanwhile");
            }
            Self::NoSample => "a less urgent thread ran, and no sample tells what it did",
            Self::Slack => "its timer's slack",
            Self::Idled => {
                "the CPU idled, though the thread could run: it left idle late, or a limit of its time held the thread back"
            }
            Self::Elsewhere => {
                "another CPU had the timer and expired it late (look for the cause there)"
            }
            Self::Boosted => "boosted: it holds a lock",
            Self::NiceInGroup => "nice counts only within a control group",
            Self::NothingKnown => "nothing is known of what ran",
            Self::NothingRecorded => "nothing was recorded",
            Self::NothingInUserCode => {
                "nothing was recorded in user code, which cannot disable interrupts: \
                 the CPU was stopped from outside, or the recorder was silent"
            }
            Self::NoSwitch => "nothing was recorded, not even a switch of threads",
            Self::OrOutside => "or a stop from outside",
            Self::UnseenSwitch => "or whom it made room for: that switch was not seen",
            Self::Overwritten => "the flight recorder had been overwritten",
            Self::Lost => "what happened then was lost, or came too late",
            Self::WakeUnseen => "nothing tells since when its thread could run",
            Self::LateInterrupt => "the timer's interrupt came late, and nothing says why",
            Self::BeforeRecord => "what ran had been running for longer than is recorded",
        })
    }
}

impl Serialize for Because {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_ordered_by_their_text() {
        use Because as B;
        let reasons = [
            B::SystemManagement(1),
            B::NoSample,
            B::Elsewhere,
            B::Boosted,
            B::NiceInGroup,
            B::NothingKnown,
            B::NothingRecorded,
            B::NothingInUserCode,
            B::NoSwitch,
            B::OrOutside,
            B::UnseenSwitch,
            B::Overwritten,
            B::LateInterrupt,
            B::BeforeRecord,
        ];

        assert!(reasons.is_sorted());
        assert!(reasons.is_sorted_by_key(ToString::to_string));
    }
}
