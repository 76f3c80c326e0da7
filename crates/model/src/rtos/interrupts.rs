//! Interrupts of a computing thread.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StealTotal;
use crate::{Nanos, nearest};

/// Source of the interrupts.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptSource {
    /// Another CPU, whose kernel timer triggers them. Not an external clock.
    #[default]
    Cpu,
    /// The HPET, a timer of the board with a separate clock.
    Hpet,
}

impl InterruptSource {
    const NAMES: [&str; 2] = ["cpu", "hpet"];
}

impl fmt::Display for InterruptSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cpu => Self::NAMES[0],
            Self::Hpet => Self::NAMES[1],
        })
    }
}

/// No interrupt source has this name.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown interrupt source `{name}`; use cpu or hpet{}", nearest(name, &InterruptSource::NAMES))]
pub struct UnknownInterruptSource {
    /// The name as typed.
    pub name: String,
}

impl FromStr for InterruptSource {
    type Err = UnknownInterruptSource;

    fn from_str(text: &str) -> Result<Self, UnknownInterruptSource> {
        match text.trim() {
            "cpu" => Ok(Self::Cpu),
            "hpet" => Ok(Self::Hpet),
            other => Err(UnknownInterruptSource { name: other.into() }),
        }
    }
}

/// One interrupt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RtosInterrupt {
    /// ISR latency: time from the last instruction of the computing thread to the first of
    /// the handler.
    ///
    /// If something else was interrupted, from the start of that or from the request of
    /// the interrupt, whichever is later. The request of an external timer is one period
    /// after its last interrupt.
    pub latency: Nanos,
    /// Whether the computing thread itself was interrupted.
    pub is_of_thread: bool,
    /// Time from the first instruction of the handler to its last.
    pub handler: Nanos,
    /// ISR dispatch latency: time from the last instruction of the handler to the next of
    /// the thread, softirqs included; `None` if another thread ran in between.
    pub dispatch: Option<Nanos>,
    /// Time from the last instruction of the computing thread to the first of the thread that runs
    /// the handler; `None` if that thread did not preempt it.
    pub thread: Option<Nanos>,
    /// Upper bound of the steal time from the last instruction of the thread to its next;
    /// `None` if the steal clock cannot be read.
    pub steal: Option<Nanos>,
}

/// Interrupts of a thread that reads the clock all the time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RtosInterrupts {
    /// Their source.
    pub source: InterruptSource,
    /// Interrupts that were measured completely, in order.
    pub samples: Vec<RtosInterrupt>,
    /// Interrupts of a computing thread whose priority is lower than the priority of the thread
    /// that runs the handler; empty if the handler runs in the interrupt.
    pub threaded: Vec<RtosInterrupt>,
    /// Number of interrupts that came too close to another one, or whose timestamps
    /// disagree.
    pub excluded: u64,
    /// Mean time between two readings of the clock, the resolution of the measurement.
    pub reading: Nanos,
    /// Steal time during the whole test, by the coarse counter of the kernel.
    pub steal: Option<StealTotal>,
}
