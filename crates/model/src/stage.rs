//! Stages: the times of an activation.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Time in an activation after its expiry, in chronological order. `CLOCK_MONOTONIC`,
/// ns.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// First instruction of the timer interrupt's handler.
    Irq,
    /// First instruction of the handler if the timer was queued on another CPU (`nohz_full`), and
    /// the handler ran there. Then `irq` is missing, which is always on the line's CPU.
    #[serde(rename = "irq_elsewhere")]
    IrqElsewhere,
    /// A thread that handles the interrupt was switched in (devices whose
    /// handlers run in threads).
    #[serde(rename = "irq_thread")]
    IrqThread,
    /// The kernel starts laggard's timer callback (direct route).
    Expire,
    /// The timer softirq was raised (deferred route).
    Raise,
    /// First instruction of laggard's deferred callback.
    Softirq,
    /// laggard's deferred callback signals a thread or a work item.
    Signal,
    /// The thread became runnable.
    Waking,
    /// The thread was switched in.
    Running,
    /// First user instruction after the wait.
    User,
    /// First instruction of laggard's work item.
    Worker,
    /// First instruction of a kernel thread after its wait.
    Kthread,
    /// An observed thread sleeps again; in a trace: a handler returned, or a page was
    /// available.
    Done,
}

/// Every stage, in order.
pub const STAGES: [Stage; 13] = [
    Stage::Irq,
    Stage::IrqElsewhere,
    Stage::IrqThread,
    Stage::Expire,
    Stage::Raise,
    Stage::Softirq,
    Stage::Signal,
    Stage::Waking,
    Stage::Running,
    Stage::User,
    Stage::Worker,
    Stage::Kthread,
    Stage::Done,
];

/// Intermediate stages, which need separate programs and can be omitted. The others
/// belong to the service; `irq_elsewhere` is present if and only if `irq` is.
pub const STAGES_ON_THE_WAY: [Stage; 6] = [
    Stage::Irq,
    Stage::IrqThread,
    Stage::Expire,
    Stage::Raise,
    Stage::Waking,
    Stage::Running,
];

impl Stage {
    /// Returns the position in [`STAGES`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the stage's name, as in the columns of a recording.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Irq => "irq",
            Self::IrqElsewhere => "irq_elsewhere",
            Self::IrqThread => "irq_thread",
            Self::Expire => "expire",
            Self::Raise => "raise",
            Self::Softirq => "softirq",
            Self::Signal => "signal",
            Self::Waking => "waking",
            Self::Running => "running",
            Self::User => "user",
            Self::Worker => "worker",
            Self::Kthread => "kthread",
            Self::Done => "done",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_is_at_its_index() {
        for (index, stage) in STAGES.iter().enumerate() {
            assert_eq!(stage.index(), index);
        }
    }
}
