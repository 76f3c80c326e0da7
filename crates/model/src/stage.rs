//! Stages: the instants of one activation.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An instant of an activation after its expiry, in the order in which they
/// come. `CLOCK_MONOTONIC`, ns.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The first instruction of the timer interrupt's handler.
    Irq,
    /// The same on another CPU, where the timer was queued (`nohz_full`); then
    /// there is no `irq`, which is of the line's own CPU.
    #[serde(rename = "irq_elsewhere")]
    IrqElsewhere,
    /// A thread that handles the interrupt was switched in (devices whose
    /// handlers run in threads).
    #[serde(rename = "irq_thread")]
    IrqThread,
    /// The kernel begins to run our timer's callback (direct route).
    Expire,
    /// The timer softirq was raised (deferred route).
    Raise,
    /// The first instruction of our deferred callback.
    Softirq,
    /// Our deferred callback asks for a thread or a work item.
    Signal,
    /// The thread became runnable.
    Waking,
    /// The thread was switched in.
    Running,
    /// The first user instruction after the wait.
    User,
    /// The first instruction of our work item.
    Worker,
    /// The first instruction after the wait of a kernel thread.
    Kthread,
    /// A thread that is watched sleeps again by itself; of a trace: a handler returned, or
    /// a page was there.
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

/// The stages on the way, which need programs of their own and can be left out.
/// The others come with the service; `irq_elsewhere` comes and goes with `irq`.
pub const STAGES_ON_THE_WAY: [Stage; 6] = [
    Stage::Irq,
    Stage::IrqThread,
    Stage::Expire,
    Stage::Raise,
    Stage::Waking,
    Stage::Running,
];

impl Stage {
    /// This stage's place in [`STAGES`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The stage's name, as in the columns of a recording.
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
    fn a_stage_stands_at_its_index() {
        for (index, stage) in STAGES.iter().enumerate() {
            assert_eq!(stage.index(), index);
        }
    }
}
