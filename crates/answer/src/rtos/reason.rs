//! Verdicts and the reasons for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verdict::TestVerdict;

/// Reason for a verdict. The figures of the criterion have the numbers.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RtosReason {
    /// The test did not run; `absences` has the causes.
    NotRun,
    /// There are too few samples.
    TooFewSamples,
    /// No latency is above the limit.
    WithinLimit,
    /// No latency is above the limit once the steal time is subtracted.
    WithinLimitWithoutSteal,
    /// Latencies are above the limit, and nothing outside of the system explains them.
    AboveLimit {
        /// Number of these latencies.
        count: usize,
    },
    /// Threads of other programs may have caused the latencies above the limit, or the
    /// max.
    PossiblyCompetitors,
    /// Steal time may have caused the latencies above the limit, or the max.
    PossiblySteal,
    /// Each priority preempts the next lower one and waits for an equal one.
    PrioritiesPreempt,
    SystemHasTooFewPriorities {
        /// Number that POSIX requires.
        required: usize,
    },
    /// This user may use too few of the priorities.
    UserHasTooFewPriorities {
        /// Number that POSIX requires.
        required: usize,
    },
    /// A priority does not preempt the next lower one.
    LowerNotPreempted,
    /// A priority preempts an equal one.
    EqualPreempted,
    /// The test ended before all pairs of priorities had run.
    PairsMissing,
    /// Each queue wakes the thread with the highest priority first.
    WokenByPriority,
    /// A queue woke a thread while one with a higher priority waited.
    WokenOutOfOrder,
    /// A queue has too few rounds or did not run, and the others wake by priority.
    QueuesMissing,
    /// A lock with `PTHREAD_PRIO_INHERIT` avoids the inversion that a plain lock has.
    PriorityInherited,
    /// Despite `PTHREAD_PRIO_INHERIT` the middle thread finished before the high one had
    /// the lock.
    InheritingLockInverted,
    /// Despite `PTHREAD_PRIO_INHERIT` the middle thread ran while the high one waited.
    MiddleThreadRan,
    /// The plain lock does not show an inversion, so the test cannot show an effect.
    PlainLockNotInverted,
    /// A wait for the inheriting lock had the length of an inversion, although the middle thread
    /// did not run.
    WaitAsLongAsInversion,
    /// Under each load, the max of the stretches and the max of all wakeups grow by less
    /// than a factor of 2.
    MaxDoesNotGrow,
    /// The max of the stretches grows by more than a factor of 2 under a load.
    MaxGrows {
        /// The load with the largest growth.
        load: String,
    },
    /// The max of the stretches does not grow, but the max of all wakeups does.
    SingleMaxGrows {
        /// First load whose max grows.
        load: String,
    },
    /// A second load for comparison is missing.
    NoSecondLoad,
    /// There are too few wakeups to decide whether the max grows, or a load did not run.
    GrowthUncertain,
    /// The locked pages stayed in memory, and others were evicted.
    LockedPagesStayed,
    /// Locked pages were evicted or read from the disk again.
    LockedPagesEvicted { pages: u64 },
    /// Not all pages were in memory after `mlock`.
    LockIncomplete,
    /// The pressure evicted nothing.
    NothingEvicted,
    /// A thread of high priority preempts a softirq.
    SoftirqPreempted,
    /// A thread of high priority waits for the end of a softirq.
    SoftirqNotPreempted,
    /// Both happened often.
    SoftirqSometimesPreempted,
}

impl RtosReason {
    /// Returns the verdict that follows.
    pub const fn verdict(&self) -> TestVerdict {
        match self {
            Self::WithinLimit
            | Self::WithinLimitWithoutSteal
            | Self::PrioritiesPreempt
            | Self::WokenByPriority
            | Self::PriorityInherited
            | Self::MaxDoesNotGrow
            | Self::LockedPagesStayed
            | Self::SoftirqPreempted => TestVerdict::Pass,
            Self::AboveLimit { .. }
            | Self::SystemHasTooFewPriorities { .. }
            | Self::LowerNotPreempted
            | Self::EqualPreempted
            | Self::WokenOutOfOrder
            | Self::InheritingLockInverted
            | Self::MiddleThreadRan
            | Self::MaxGrows { .. }
            | Self::LockedPagesEvicted { .. }
            | Self::SoftirqNotPreempted => TestVerdict::Fail,
            _ => TestVerdict::Unknown,
        }
    }
}
