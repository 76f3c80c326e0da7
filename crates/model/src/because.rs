//! Reasons for or against naming a culprit.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reason why no culprit is named, or an additional fact: a doubt, a lock. Ordered by its
/// text.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(tag = "kind", content = "count", rename_all = "snake_case")]
pub enum Because {
    /// The firmware stopped all CPUs this number of times.
    SystemManagement(u32),
    /// The running thread should have been preempted, and the sampler did not sample it.
    NoSample,
    /// The CPU had to wait for another one, which had its timer.
    Elsewhere,
    /// The kernel lent the thread the priority of a thread that waits for its lock.
    Boosted,
    /// The thread that ran has less weight than the waiting one in their control group, by its
    /// nice value or policy.
    LessWeight,
    /// The thread that ran has more weight than the waiting one in their control group.
    MoreWeight,
    /// The waiting thread has a higher nice weight than the thread that ran, without
    /// effect: they are in control groups, and the other's group is not the heavier
    /// one.
    NiceInGroup,
    /// The record of this time is missing.
    NothingRecorded,
    /// The record is missing, although user code cannot prevent it.
    NothingInUserCode,
    /// The record is missing, and so is the record of the switch that must have happened.
    NoSwitch,
    /// A stop of the whole CPU from outside may have taken the time.
    OrOutside,
    /// Another thread ran after this one, and the switch was not recorded.
    UnseenSwitch,
    /// The CPU idled although the thread could run.
    Idled,
    /// The thread has run since before the records start.
    BeforeRecord,
    /// All records are missing.
    NothingKnown,
    /// The time when the thread could run is unknown.
    WakeUnseen,
    /// The reason for the late timer interrupt is unknown.
    LateInterrupt,
    /// The records of this time were lost.
    Lost,
    /// The record was overwritten by newer ones.
    Overwritten,
    /// The thread allowed its timer to be this late.
    Slack,
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::SystemManagement(1) => "1 system management interrupt at that time",
            Self::SystemManagement(more) => {
                return write!(f, "{more} system management interrupts at that time");
            }
            Self::NoSample => "a thread of lower priority ran, and no sample shows what it did",
            Self::Slack => "timer slack",
            Self::Idled => {
                "the CPU idled while the thread was runnable: a late idle exit, or a limit on CPU time"
            }
            Self::Elsewhere => {
                "another CPU handled the timer late (look for the cause there)"
            }
            Self::Boosted => "boosted because it holds a lock",
            Self::LessWeight => "less weight, by nice value or policy",
            Self::MoreWeight => "more weight, by nice value or policy",
            Self::NiceInGroup => "nice counts only within a control group",
            Self::NothingKnown => "the thread that ran is unknown",
            Self::NothingRecorded => "nothing was recorded",
            Self::NothingInUserCode => {
                "nothing was recorded in user code, which cannot disable interrupts: \
                 an external stop of the CPU, or a gap in the recording"
            }
            Self::NoSwitch => "nothing was recorded, not even a context switch",
            Self::OrOutside => "or an external stop of the CPU",
            Self::UnseenSwitch => "or another thread after it: a context switch was not seen",
            Self::Overwritten => "the trace data was overwritten",
            Self::Lost => "the trace data was lost",
            Self::WakeUnseen => "the time when its thread became runnable is unknown",
            Self::LateInterrupt => "the timer IRQ came late, for an unknown reason",
            Self::BeforeRecord => "the activity started before the trace data",
        })
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
            B::LessWeight,
            B::MoreWeight,
            B::NiceInGroup,
            B::NothingRecorded,
            B::NothingInUserCode,
            B::NoSwitch,
            B::OrOutside,
            B::UnseenSwitch,
            B::Idled,
            B::BeforeRecord,
            B::NothingKnown,
            B::WakeUnseen,
            B::LateInterrupt,
            B::Lost,
            B::Overwritten,
            B::Slack,
        ];

        assert!(reasons.is_sorted());
        assert!(reasons.is_sorted_by_key(ToString::to_string));
    }
}
