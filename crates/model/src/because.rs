//! What there is to say of a culprit, or why there is none.

use std::fmt;

use serde::{Serialize, Serializer};

/// Why nobody can be named, or what more there is to say: a doubt, a lock.
/// Serialized in words, and ordered as these are.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Because {
    /// The firmware stopped all CPUs so often meanwhile.
    SystemManagement(u32),
    /// Who ran should have made room, and the sampler saw nothing of it.
    NoSample,
    /// The thread allowed its timer to be that late.
    Slack,
    /// The CPU idled, though the thread could run.
    Idled,
    /// The CPU had to wait for another one, which had its timer.
    Elsewhere,
    /// The kernel lent the thread the priority of who waits for its lock.
    Boosted,
    /// The waiting thread has a higher nice weight than the thread that ran, which has no
    /// effect: they are in control groups, of which the other is not the heavier one.
    NiceInGroup,
    /// There is no record at all.
    NothingKnown,
    /// There is no record of this time.
    NothingRecorded,
    /// There is none, though user code cannot keep the CPU from making one.
    NothingInUserCode,
    /// There is none, not even of the switch that there was.
    NoSwitch,
    /// What took the time may have been what stops whole CPUs.
    OrOutside,
    /// Somebody ran after the thread, and the switch was not seen.
    UnseenSwitch,
    /// There was a record, and newer ones took its place.
    Overwritten,
    /// What happened meanwhile was lost.
    Lost,
    /// When the thread could run is not known.
    WakeUnseen,
    /// What kept the timer's interrupt is not known.
    LateInterrupt,
    /// The thread ran since before the record begins.
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
    fn reasons_are_ordered_as_their_words() {
        use Because as B;
        let all = [
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

        assert!(all.is_sorted());
        assert!(all.is_sorted_by_key(ToString::to_string));
    }
}
